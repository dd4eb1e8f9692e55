package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/pki"
)

// WriteAuthority writes the certificate authority of a kubeconfig to a file.
func WriteAuthority(kubeconfig, file string) error {
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

// ErrNotServing is upstream's word for a kubelet whose certificate nobody has signed yet.
var ErrNotServing = errors.New("no serving certificate available for the kubelet")

// ServingConfig says what a serving certificate is for.
type ServingConfig struct {
	Client   kubernetes.Interface
	NodeName string   // it is for this name
	IPs      []net.IP // and for these addresses
	Dir      string   // where it is kept
	Logger   *slog.Logger
}

// Serving is a serving certificate that is asked for with a CertificateSigningRequest.
type Serving struct {
	client  kubernetes.Interface
	log     *slog.Logger
	request request
	pair    atomic.Pointer[pki.KeyPair] // nil until there is one
}

// NewServing makes a Serving, which asks for nothing before Run.
func NewServing(c ServingConfig) *Serving {
	return &Serving{client: c.Client, log: c.Logger, request: request{
		signer: certificatesv1.KubeletServingSignerName, usage: certificatesv1.UsageServerAuth, node: c.NodeName,
		names: []string{c.NodeName}, ips: c.IPs, file: filepath.Join(c.Dir, servingCert),
	}}
}

// Get is a tls.Config's GetCertificate.
func (s *Serving) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair := s.pair.Load()
	if pair == nil {
		return nil, ErrNotServing
	}
	return pair.Certificate(), nil
}

// Run has a certificate that is good for the node, and gets a new one in time, until ctx ends.
func (s *Serving) Run(ctx context.Context) error {
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
			if err = s.request.send(ctx, s.client); err == nil {
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
func (s *Serving) load() (*x509.Certificate, error) {
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
func (s *Serving) fits(cert *x509.Certificate) bool {
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
