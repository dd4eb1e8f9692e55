package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/apiserver/connect"
	"vigil/cluster/serving"
	"vigil/pki"
)

// KubeletClientConfig says how an API server reaches kubelets.
type KubeletClientConfig = connect.Kubelets

// kubeletClient is how the API server of `vigil up` reaches kubelets: with kubeadm's certificate and addresses, and only those that the
// cluster's authority has signed.
func kubeletClient(given KubeletClientConfig, certificates *pki.Set) KubeletClientConfig {
	if given.CertFile == "" {
		given.CertFile, given.KeyFile = certificates.Path("apiserver-kubelet-client.crt"), certificates.Path("apiserver-kubelet-client.key")
	}
	if given.CAFile == "" {
		given.CAFile = certificates.Path("ca.crt")
	}
	if slices.Contains(given.PreferredAddressTypes, "Hostname") { // which nobody resolves
		given.PreferredAddressTypes = []string{"InternalIP", "ExternalIP", "Hostname"}
	}
	return given
}

// letServerAsk gives the API server's user the rights that it needs at kubelets: those of system:kubelet-api-admin. A binding that is there is left as it is.
func letServerAsk(ctx context.Context, dir string) error {
	client, _, err := adminClient(dir)
	if err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "vigil:kubelet-api-admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: pki.KubeletClient}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("give the API server its rights at kubelets: %w", err)
	}
	return nil
}

// kubeletPort is what a kubelet's server shows, and by whom it knows its clients.
type kubeletPort struct {
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	clientCA    *pki.Bundle
	run         func(context.Context) error // gets and renews the certificate; nil when it is given
}

// serving returns what the server of a kubelet at addresses works with. A certificate that is given by its files is used as it is; else one
// is made (SelfSigned) or asked for with a CertificateSigningRequest, and again in time (--rotate-server-certificates). Without a file of client CAs, those of
// the kubeconfig are good for clients, too: the cluster's authority signs both.
func (c *KubeletConfig) serving(client kubernetes.Interface, given NodeServer, addresses ...netip.Addr) (kubeletPort, error) {
	var p kubeletPort
	var err error
	dir, clientCAFile := filepath.Dir(c.certFile()), given.ClientCAFile
	if clientCAFile == "" {
		clientCAFile = filepath.Join(dir, "ca.crt")
		if err := writeAuthority(c.Kubeconfig, clientCAFile); err != nil {
			return p, fmt.Errorf("client CA of the kubelet: %w", err)
		}
	}
	if p.clientCA, err = pki.NewBundle(clientCAFile, c.Logger); err != nil {
		return p, err
	}
	if given.CertFile != "" || given.SelfSigned {
		who := pki.SelfSigned{CommonName: c.NodeName, DNSNames: []string{c.NodeName, "localhost"}}
		for _, a := range addresses {
			who.IPs = append(who.IPs, net.IP(a.AsSlice()))
		}
		config, err := serving.Config{TLSCertFile: given.CertFile, TLSKeyFile: given.KeyFile}.TLS(who, c.Logger)
		if err != nil {
			return p, err
		}
		p.certificate = config.GetCertificate
		return p, nil
	}
	s := &servingCertificate{client: client, log: c.Logger, request: certificateRequest{
		signer: certificatesv1.KubeletServingSignerName, usage: certificatesv1.UsageServerAuth, node: c.NodeName,
		names: []string{c.NodeName}, file: filepath.Join(dir, servingCert),
	}}
	for _, a := range addresses {
		s.request.ips = append(s.request.ips, net.IP(a.AsSlice()))
	}
	p.certificate, p.run = s.get, s.run
	return p, nil
}

// writeAuthority writes the certificate authority of a kubeconfig to a file.
func writeAuthority(kubeconfig, file string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	data := config.CAData
	if len(data) == 0 {
		if config.CAFile == "" {
			return fmt.Errorf("kubeconfig %s names no certificate authority", kubeconfig)
		}
		bundle, err := pki.NewBundle(config.CAFile, nil)
		if err != nil {
			return err
		}
		data = bundle.PEM()
	}
	return pki.WriteFile(file, data, 0o644)
}

// servingCert is the file with a kubelet's serving certificate and key, as upstream names it.
const servingCert = "kubelet-server-current.pem"

// errNotServing is upstream's word for a kubelet whose certificate nobody has signed yet.
var errNotServing = errors.New("no serving certificate available for the kubelet")

// servingCertificate is a serving certificate that is asked for.
type servingCertificate struct {
	client  kubernetes.Interface
	log     *slog.Logger
	request certificateRequest
	pair    atomic.Pointer[pki.KeyPair] // nil until there is one
}

// get is a tls.Config's GetCertificate.
func (s *servingCertificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair := s.pair.Load()
	if pair == nil {
		return nil, errNotServing
	}
	return pair.Certificate(), nil
}

// run has a certificate that is good for the node, and gets a new one in time, until ctx ends.
func (s *servingCertificate) run(ctx context.Context) error {
	var asked time.Time
	for {
		var wait time.Duration
		cert, err := s.load()
		if err == nil && s.fits(cert) {
			wait = time.Until(rotationTime(cert))
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.log.Warn("the kubelet cannot read its serving certificate; it asks for a new one", "error", err)
		}
		if wait <= 0 { // a certificate that is got may be old or wrong already: an authority near its end gives no other
			wait = certRetry - time.Since(asked)
		}
		if wait <= 0 {
			asked = time.Now()
			if err = requestCertificate(ctx, s.client, s.request); err == nil {
				s.log.Info("the kubelet has a new serving certificate", "node", s.request.node)
				continue
			}
			if ctx.Err() != nil {
				return nil
			}
			s.log.Warn("the kubelet did not get a serving certificate; it asks again: see whether its CertificateSigningRequest waits for approval", "node", s.request.node, "error", err)
			wait = certRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// load reads the file and serves what is in it.
func (s *servingCertificate) load() (*x509.Certificate, error) {
	pair := s.pair.Load()
	if pair == nil {
		var err error
		if pair, err = pki.NewKeyPair(s.request.file, s.request.file, s.log); err != nil {
			return nil, err
		}
		s.pair.Store(pair)
	}
	now, err := tls.LoadX509KeyPair(s.request.file, s.request.file)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(now.Certificate[0])
}

// fits says whether a certificate is for this node as it is now.
func (s *servingCertificate) fits(cert *x509.Certificate) bool {
	for _, name := range s.request.names {
		if !slices.Contains(cert.DNSNames, name) {
			return false
		}
	}
	for _, ip := range s.request.ips {
		if !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			return false
		}
	}
	return time.Now().Before(cert.NotAfter)
}
