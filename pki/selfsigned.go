package pki

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// madeBy begins the name of authorities that sign one serving certificate and are forgotten.
const madeBy = "vigil-self-signed"

// SelfSigned is a serving certificate that nobody knows yet: what a server shows to whom nothing better was given. Its authority signs
// nothing else and its key is thrown away.
type SelfSigned struct {
	CommonName string
	DNSNames   []string
	IPs        []net.IP
}

// issue makes the certificate and the authority that has signed it.
func (s SelfSigned) issue(now time.Time) (ca, leaf *Pair, err error) {
	if ca, err = NewAuthority(madeBy, now); err != nil {
		return nil, nil, err
	}
	leaf, err = ca.Issue(Subject{CommonName: s.CommonName, DNSNames: s.DNSNames, IPs: s.IPs, Server: true}, now)
	return ca, leaf, err
}

// Make makes a certificate with its chain, and its key, to be held in memory.
func (s SelfSigned) Make(now time.Time) (*tls.Certificate, error) {
	ca, leaf, err := s.issue(now)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Cert.Raw, ca.Cert.Raw}, PrivateKey: leaf.Key, Leaf: leaf.Cert}, nil
}

// Ensure returns the files dir/pair.crt and dir/pair.key (--cert-dir). What somebody has put there is taken as it is. When there is nothing, or
// what an earlier call has made ends within a month, both are made. A file without the other is an error.
func (s SelfSigned) Ensure(dir, pair string, now time.Time) (certFile, keyFile string, err error) {
	base := filepath.Join(dir, pair)
	found, err := load(base)
	switch {
	case err == nil && (!strings.HasPrefix(found.Cert.Issuer.CommonName, madeBy) || now.Add(renewBefore(leafLife)).Before(found.Cert.NotAfter)):
		return base + ".crt", base + ".key", nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", "", err
	}
	ca, leaf, err := s.issue(now)
	if err != nil {
		return "", "", err
	}
	keyPEM, err := leaf.KeyPEM()
	if err != nil {
		return "", "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", fmt.Errorf("make a certificate for this server: %w (--cert-dir names another directory, --tls-cert-file a certificate)", err)
	}
	// The key first, as in save.
	if err := writeFile(base+".key", keyPEM, 0o600); err != nil {
		return "", "", err
	}
	return base + ".crt", base + ".key", writeFile(base+".crt", append(leaf.CertPEM(), ca.CertPEM()...), 0o644)
}
