package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"

	"vigil/pki"
)

const (
	// currentCert is the file with a kubelet's certificate and key, as upstream names it.
	currentCert = "kubelet-client-current.pem"
	// certPatience bounds one attempt to get a certificate: somebody may have to approve it by hand.
	certPatience = 15 * time.Minute
	// certRetry is the time between attempts.
	certRetry = 10 * time.Second
)

// bootstrap sees to it that Kubeconfig is there with a certificate that has not ended: when it is not, BootstrapKubeconfig is good
// for asking for one. It goes on asking until ctx ends.
func (c *KubeletConfig) bootstrap(ctx context.Context) error {
	if c.BootstrapKubeconfig == "" {
		return nil
	}
	c.RotateCertificates = true
	cert, err := kubeconfigCertificate(c.Kubeconfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kubelet %s: %w", c.NodeName, err)
	}
	if err == nil && time.Now().Before(cert.NotAfter) {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.BootstrapKubeconfig)
	if err != nil {
		return fmt.Errorf("kubelet %s: %w", c.NodeName, err)
	}
	for {
		err := c.newCertificate(ctx, config)
		if err == nil {
			break
		}
		c.Logger.Warn("the kubelet did not get a client certificate; it asks again", "node", c.NodeName, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(certRetry):
		}
	}
	return c.writeKubeconfig()
}

// writeKubeconfig writes Kubeconfig: the cluster of BootstrapKubeconfig with the certificate that was got.
func (c *KubeletConfig) writeKubeconfig() error {
	from, err := clientcmd.LoadFromFile(c.BootstrapKubeconfig)
	if err != nil {
		return err
	}
	current := from.Contexts[from.CurrentContext]
	if current == nil || from.Clusters[current.Cluster] == nil {
		return fmt.Errorf("kubeconfig %s names no cluster", c.BootstrapKubeconfig)
	}
	cluster := *from.Clusters[current.Cluster]
	if cluster.CertificateAuthority != "" && len(cluster.CertificateAuthorityData) == 0 {
		if err := clientcmd.RelativizeClusterLocalPaths(&cluster); err != nil {
			return err
		}
	}
	file, err := filepath.Abs(c.certFile())
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["default-cluster"] = &cluster
	config.AuthInfos["default-auth"] = &clientcmdapi.AuthInfo{ClientCertificate: file, ClientKey: file}
	config.Contexts["default-context"] = &clientcmdapi.Context{Cluster: "default-cluster", AuthInfo: "default-auth", Namespace: "default"}
	config.CurrentContext = "default-context"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return pki.WriteFile(c.Kubeconfig, data, 0o600)
}

func (c *KubeletConfig) certFile() string {
	dir := c.CertDir
	if dir == "" {
		dir = filepath.Join(filepath.Dir(c.Kubeconfig), "pki")
	}
	return filepath.Join(dir, currentCert)
}

// rotate asks for a new certificate when most of the present one's life is over, until ctx ends. Who uses Kubeconfig by
// pki.ClientConfig takes it over.
func (c *KubeletConfig) rotate(ctx context.Context) error {
	var asked time.Time
	for {
		wait := certRetry
		cert, err := kubeconfigCertificate(c.Kubeconfig)
		if err == nil { // an authority near its end gives certificates that are old already
			wait = max(time.Until(rotationTime(cert)), certRetry-time.Since(asked))
		}
		if wait > 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
			continue
		}
		asked = time.Now()
		config, err := pki.ClientConfig(c.Kubeconfig, nil)
		if err == nil {
			err = c.newCertificate(ctx, config)
		}
		if err == nil {
			c.Logger.Info("the kubelet has a new client certificate", "node", c.NodeName)
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		c.Logger.Warn("the kubelet could not renew its client certificate; it tries again until the one it has ends", "node", c.NodeName, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(certRetry, time.Until(cert.NotAfter)/4+time.Second)):
		}
	}
}

// rotationTime is when a new certificate is asked for: after seven to nine tenths of the life, so that many nodes do not ask at
// once. The serial number decides, which is random.
func rotationTime(cert *x509.Certificate) time.Time {
	begin := cert.NotBefore
	if short := 8 * time.Hour; cert.NotAfter.Sub(begin) <= short {
		begin = begin.Add(5 * time.Minute) // signers date certificates back; of a short life that is a large part
	}
	spread := 0.2 * float64(cert.SerialNumber.Bytes()[0]) / 255
	return begin.Add(time.Duration(float64(cert.NotAfter.Sub(begin)) * (0.7 + spread)))
}

// newCertificate asks for a client certificate, waits until it is signed, and puts it into the file.
func (c *KubeletConfig) newCertificate(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.UserAgent, config.WarningHandler = "kubelet", rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	return requestCertificate(ctx, client, certificateRequest{
		signer: certificatesv1.KubeAPIServerClientKubeletSignerName, usage: certificatesv1.UsageClientAuth, node: c.NodeName, file: c.certFile(),
	})
}

// certificateRequest says which certificate a kubelet asks for, and into which file it goes with its key.
type certificateRequest struct {
	signer string
	usage  certificatesv1.KeyUsage
	node   string
	names  []string // of a serving certificate
	ips    []net.IP
	file   string
}

// requestCertificate asks for a certificate, waits until it is signed, and puts it into the file.
func requestCertificate(ctx context.Context, client kubernetes.Interface, r certificateRequest) error {
	ctx, cancel := context.WithTimeout(ctx, certPatience)
	defer cancel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	subject := pki.NodeSubject(r.node)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: subject.CommonName, Organization: subject.Organizations},
		DNSNames: r.names, IPAddresses: r.ips,
	}, key)
	if err != nil {
		return err
	}
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, r.usage}
	name, uid, err := csr.RequestCertificateWithContext(ctx, client, pemBlock("CERTIFICATE REQUEST", der), "", r.signer, nil, usages, key)
	if err != nil {
		return fmt.Errorf("ask for a certificate: %w", err)
	}
	cert, err := csr.WaitForCertificate(ctx, client, name, uid)
	if err != nil {
		return fmt.Errorf("wait for certificate %s: %w", name, err)
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	both := append(append([]byte{}, cert...), private...)
	if _, err := tls.X509KeyPair(both, both); err != nil {
		return fmt.Errorf("certificate %s: %w", name, err)
	}
	return pki.WriteFile(r.file, both, 0o600)
}

// kubeconfigCertificate is the client certificate of a kubeconfig.
func kubeconfigCertificate(file string) (*x509.Certificate, error) {
	if _, err := os.Stat(file); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return nil, fmt.Errorf("client certificate of %s: %w", file, err)
	}
	return x509.ParseCertificate(pair.Certificate[0])
}
