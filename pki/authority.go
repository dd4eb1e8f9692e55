package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Lifetimes of what this package signs, as kubeadm's: ten years for authorities, one for leaves.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	backdate      = 5 * time.Minute // clocks of other machines may be behind
)

// Pair is a certificate with its private key.
type Pair struct {
	Cert *x509.Certificate
	Key  crypto.Signer
}

// Subject says who a certificate speaks for and what it may be used for.
type Subject struct {
	CommonName    string
	Organizations []string
	DNSNames      []string
	IPs           []net.IP
	Server        bool // may be presented by a server
	Client        bool // may be presented by a client
	// Life is how long the certificate is good, never longer than its authority. 0: a year.
	Life time.Duration
}

// life is how long a certificate is good.
func (s *Subject) life() time.Duration {
	if s.Life == 0 {
		return leafLife
	}
	return s.Life
}

// renewBefore is how long before its end a certificate is replaced: a month, or the last third of a short life.
func renewBefore(life time.Duration) time.Duration { return min(30*24*time.Hour, life/3) }

// NewAuthority makes a self-signed certificate authority.
func NewAuthority(commonName string, now time.Time) (*Pair, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: commonName},
		DNSNames:              []string{commonName},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	return sign(template, &Pair{Cert: template, Key: key}, key)
}

// Issue makes a key and a certificate for subject, signed by the authority.
func (ca *Pair) Issue(subject Subject, now time.Time) (*Pair, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: subject.CommonName, Organization: subject.Organizations},
		DNSNames:    subject.DNSNames,
		IPAddresses: subject.IPs,
		NotBefore:   now.Add(-backdate),
		NotAfter:    minTime(now.Add(subject.life()), ca.Cert.NotAfter),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
	}
	if subject.Server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if subject.Client {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
	}
	return sign(template, ca, key)
}

func sign(template *x509.Certificate, ca *Pair, key *ecdsa.PrivateKey) (*Pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("draw a serial number: %w", err)
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	if template.IsCA {
		public, err := x509.MarshalPKIXPublicKey(key.Public())
		if err != nil {
			return nil, fmt.Errorf("encode public key: %w", err)
		}
		id := sha256.Sum256(public)
		template.SubjectKeyId = id[:20]
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.Cert, key.Public(), ca.Key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate of %q: %w", template.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read back certificate of %q: %w", template.Subject.CommonName, err)
	}
	return &Pair{Cert: cert, Key: key}, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a private key: %w", err)
	}
	return key, nil
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
