package authn

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"time"
)

// ErrNoCredentials says that a connection came without a client certificate.
var ErrNoCredentials = errors.New("no client certificate")

// uidOID is the subject attribute that carries a user's UID (KEP-2799 and upstream's x509 authenticator).
var uidOID = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}

// X509 authenticates connections by their client certificate. The server asks for one at the handshake but lets any in
// (tls.RequestClientCert): checking here makes a bad certificate a 401 that says so, instead of a broken connection.
type X509 struct {
	roots *x509.CertPool
	now   func() time.Time
}

// NewX509 returns an authenticator that trusts what the given CAs have signed.
func NewX509(roots *x509.CertPool) *X509 { return &X509{roots: roots, now: time.Now} }

// Identity is the outcome for one connection. It is made once and used for every request on it.
type Identity struct {
	User *User
	// NotAfter is when the certificate stops being good, also on a connection that is open then.
	NotAfter time.Time
}

// Authenticate returns who holds the other end of a TLS connection. The error is ErrNoCredentials or says why the
// certificate is refused.
func (a *X509) Authenticate(state *tls.ConnectionState) (*Identity, error) {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil, ErrNoCredentials
	}
	leaf := state.PeerCertificates[0]
	opts := x509.VerifyOptions{
		Roots:         a.roots,
		Intermediates: x509.NewCertPool(),
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		CurrentTime:   a.now(),
	}
	for _, c := range state.PeerCertificates[1:] {
		opts.Intermediates.AddCert(c)
	}
	if a.roots == nil {
		return nil, fmt.Errorf("verify client certificate of %q: no client CA is configured", leaf.Subject.CommonName)
	}
	if _, err := leaf.Verify(opts); err != nil {
		return nil, fmt.Errorf("verify client certificate of %q: %w", leaf.Subject.CommonName, err)
	}
	if leaf.Subject.CommonName == "" {
		return nil, errors.New("client certificate without common name")
	}
	u := &User{Name: leaf.Subject.CommonName}
	u.Groups = append(append(u.Groups, leaf.Subject.Organization...), GroupAuthenticated)
	for _, attr := range leaf.Subject.Names {
		if uid, ok := attr.Value.(string); ok && attr.Type.Equal(uidOID) {
			u.UID = uid
		}
	}
	return &Identity{User: u, NotAfter: leaf.NotAfter}, nil
}
