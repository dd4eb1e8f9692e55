package node

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"

	"k8s.io/client-go/kubernetes"

	"vigil/internal/serving"
	"vigil/kubelet/certificates"
	"vigil/pki"
)

// port is what the kubelet's server shows, and by whom it knows its clients.
type port struct {
	certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	clientCA    *pki.Bundle
	run         func(context.Context) error // gets and renews the certificate; nil when it is given
}

// serving returns what the server of a kubelet at addresses works with. A certificate that is given by its files is used as it is; else one
// is made (SelfSigned) or asked for with a CertificateSigningRequest, and again in time (--rotate-server-certificates). Without a file of client CAs, those of
// the kubeconfig are good for clients, too: the cluster's authority signs both.
func (c *Config) serving(client kubernetes.Interface, given Server, addresses ...netip.Addr) (port, error) {
	var p port
	var err error
	dir, clientCAFile := filepath.Dir(c.certificate().File()), given.ClientCAFile
	if clientCAFile == "" {
		clientCAFile = filepath.Join(dir, "ca.crt")
		if err := certificates.WriteAuthority(c.Kubeconfig, clientCAFile); err != nil {
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
	var ips []net.IP
	for _, a := range addresses {
		ips = append(ips, net.IP(a.AsSlice()))
	}
	s := certificates.NewServing(certificates.ServingConfig{Client: client, NodeName: c.NodeName, IPs: ips, Dir: dir, Logger: c.Logger})
	p.certificate, p.run = s.Get, s.Run
	return p, nil
}
