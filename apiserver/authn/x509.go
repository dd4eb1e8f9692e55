package authn

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrNoCredentials says that a request came with nothing that says who sent it.
var ErrNoCredentials = errors.New("no credentials")

// errExpired says that a certificate has ended while its connection was open.
var errExpired = errors.New("client certificate has expired")

// uidOID is the subject attribute that carries a user's UID (KEP-2799 and upstream's x509 authenticator).
var uidOID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

// ExtraCredentialID is the key of the extra value that tells one credential of a user from another.
const ExtraCredentialID = "authentication.kubernetes.io/credential-id"

// Connection is what the client certificate of one connection proves. It is found out with the first request and kept, until
// the authorities change. The zero value is that of a connection without requests.
type Connection struct {
	certificate atomic.Pointer[certificate]
}

// certificate is a client certificate as judged by the authorities of one moment.
type certificate struct {
	clientCAs, proxyCAs *x509.CertPool

	user     *User // whom it speaks for; nil when nobody is asked, or with err
	err      error // why it is refused
	isProxy  bool  // it may say in headers on whose behalf it asks
	notAfter time.Time
}

// of returns the certificate of a connection, nil when it has none.
func (c *Chain) certificate(conn *Connection, state *tls.ConnectionState) *certificate {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	clientCAs, proxyCAs := c.clientCAs(), c.proxyCAs()
	known := conn.certificate.Load()
	if known != nil && known.clientCAs == clientCAs && known.proxyCAs == proxyCAs {
		return known
	}
	leaf := state.PeerCertificates[0]
	fresh := &certificate{clientCAs: clientCAs, proxyCAs: proxyCAs, notAfter: leaf.NotAfter}
	if clientCAs != nil {
		fresh.user, fresh.err = c.holder(state.PeerCertificates, clientCAs)
	}
	if proxyCAs != nil {
		fresh.isProxy = c.proxy.allows(leaf.Subject.CommonName) && c.verify(state.PeerCertificates, proxyCAs) == nil
	}
	conn.certificate.Store(fresh)
	return fresh
}

// holder is whom a certificate speaks for: the common name, in groups of the organizations.
func (c *Chain) holder(chain []*x509.Certificate, roots *x509.CertPool) (*User, error) {
	leaf := chain[0]
	if err := c.verify(chain, roots); err != nil {
		return nil, fmt.Errorf("verify client certificate of %q: %w", leaf.Subject.CommonName, err)
	}
	if leaf.Subject.CommonName == "" {
		return nil, errors.New("client certificate without common name")
	}
	sum := sha256.Sum256(leaf.Raw)
	u := &User{
		Name:   leaf.Subject.CommonName,
		Groups: WithAuthenticated(leaf.Subject.Organization),
		Extra:  map[string][]string{ExtraCredentialID: {"X509SHA256=" + hex.EncodeToString(sum[:])}},
	}
	for _, attr := range leaf.Subject.Names {
		if uid, ok := attr.Value.(string); ok && attr.Type.Equal(uidOID) {
			u.UID = uid
		}
	}
	return u, nil
}

func (c *Chain) verify(chain []*x509.Certificate, roots *x509.CertPool) error {
	opts := x509.VerifyOptions{
		Roots:         roots,
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		CurrentTime:   c.now(),
	}
	for _, cert := range chain[1:] {
		opts.Intermediates.AddCert(cert)
	}
	_, err := chain[0].Verify(opts)
	return err
}
