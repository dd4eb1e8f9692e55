package pki

import (
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
)

// NamedPair are the files of a certificate that is shown to clients that ask for certain names (--tls-sni-cert-key).
type NamedPair struct {
	CertFile, KeyFile string
	// Names are domain names, whose first label may be *, and IP addresses. None: those of the certificate.
	Names []string
}

// Certificates are a server's: one for everybody, and others for certain names. All are read again when their files change.
type Certificates struct {
	common *KeyPair
	named  []*named
}

type named struct {
	pair  *KeyPair
	given []string // lower case
	read  atomic.Pointer[namesOf]
}

// namesOf are the names of one content of the files.
type namesOf struct {
	cert  *tls.Certificate
	names []string
}

// NewCertificates reads the files of the named pairs. log hears of changes, and may be nil.
func NewCertificates(common *KeyPair, pairs []NamedPair, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{common: common}
	for _, p := range pairs {
		pair, err := NewKeyPair(p.CertFile, p.KeyFile, log)
		if err != nil {
			return nil, err
		}
		n := &named{pair: pair}
		for _, name := range p.Names {
			n.given = append(n.given, strings.ToLower(name))
		}
		c.named = append(c.named, n)
	}
	return c, nil
}

// GetCertificate is a tls.Config's. It follows upstream's order: a name that was given wins over one that a certificate has, a whole name over a
// wildcard, an earlier pair over a later one. A client that names nothing has connected to an address, which counts as the name.
func (c *Certificates) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if len(c.named) == 0 {
		return c.common.Certificate(), nil
	}
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if name == "" && hello.Conn != nil {
		if host, _, err := net.SplitHostPort(hello.Conn.LocalAddr().String()); err == nil {
			name = host
		}
	}
	for _, wanted := range []string{name, wildcard(name)} {
		if wanted == "" {
			continue
		}
		for _, of := range []func(*named) []string{func(n *named) []string { return n.given }, (*named).own} {
			for _, n := range c.named {
				for _, has := range of(n) {
					if has == wanted {
						return n.pair.Certificate(), nil
					}
				}
			}
		}
	}
	return c.common.Certificate(), nil
}

// own are the names in the certificate, for a pair that was given none.
func (n *named) own() []string {
	if n.given != nil {
		return nil
	}
	cert := n.pair.Certificate()
	if known := n.read.Load(); known != nil && known.cert == cert {
		return known.names
	}
	names := []string{}
	if leaf := cert.Leaf; leaf != nil {
		for _, name := range append([]string{leaf.Subject.CommonName}, leaf.DNSNames...) {
			if name != "" {
				names = append(names, strings.ToLower(name))
			}
		}
		for _, ip := range leaf.IPAddresses {
			names = append(names, ip.String())
		}
	}
	n.read.Store(&namesOf{cert: cert, names: names})
	return names
}

// wildcard is what matches a name besides itself, "" for an address.
func wildcard(name string) string {
	_, rest, found := strings.Cut(name, ".")
	if !found || net.ParseIP(name) != nil {
		return ""
	}
	return "*." + rest
}
