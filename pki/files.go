package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/keyutil"
)

// ErrDamaged says that a file exists and does not hold what its name promises. It is never overwritten: the user
// decides whether to restore or to remove it.
var ErrDamaged = errors.New("damaged")

// ErrLost says that a file is missing that the cluster in the data directory cannot do without. It is never made anew.
var ErrLost = errors.New("lost")

// errHalf is an ErrDamaged: one file of a pair is missing, or belongs to another pair. A write that ended between the two leaves that.
var errHalf = fmt.Errorf("%w", ErrDamaged)

// load reads base.crt and base.key. It fails with fs.ErrNotExist when both are missing, and with ErrDamaged when one
// of them is, cannot be parsed, or does not belong to the other.
func load(base string) (*Pair, error) {
	certPEM, certErr := os.ReadFile(base + ".crt")
	keyPEM, keyErr := os.ReadFile(base + ".key")
	switch {
	case errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist):
		return nil, certErr
	case errors.Is(certErr, fs.ErrNotExist):
		return nil, fmt.Errorf("%s.key is there but %s.crt is missing: %w", base, base, errHalf)
	case errors.Is(keyErr, fs.ErrNotExist):
		return nil, fmt.Errorf("%s.crt is there but %s.key is missing: %w", base, base, errHalf)
	case certErr != nil:
		return nil, certErr
	case keyErr != nil:
		return nil, keyErr
	}
	cert, err := parseCertificate(certPEM)
	if err != nil {
		return nil, fmt.Errorf("certificate %s.crt is %w: %w", base, ErrDamaged, err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("key %s.key is %w: %w", base, ErrDamaged, err)
	}
	type equaler interface{ Equal(crypto.PublicKey) bool }
	if public, ok := key.Public().(equaler); !ok || !public.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("%s.key does not belong to %s.crt: %w", base, base, errHalf)
	}
	return &Pair{Cert: cert, Key: key}, nil
}

func (p *Pair) save(base string) error {
	keyPEM, err := p.KeyPEM()
	if err != nil {
		return err
	}
	if err := writeFile(base+".key", keyPEM, 0o600); err != nil {
		return err
	}
	return writeFile(base+".crt", p.CertPEM(), 0o644)
}

// CertPEM is the certificate as a PEM block.
func (p *Pair) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Cert.Raw})
}

// KeyPEM is the private key as a PEM block.
func (p *Pair) KeyPEM() ([]byte, error) {
	return keyutil.MarshalPrivateKeyToPEM(p.Key)
}

func parseCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no PEM certificate in it")
	}
	return x509.ParseCertificate(block.Bytes)
}

func parseKey(data []byte) (crypto.Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, err
	}
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		return key, nil
	case *rsa.PrivateKey:
		return key, nil
	}
	return nil, fmt.Errorf("keys of type %T cannot be used", key)
}

// WriteFile replaces name in one step, so that who reads it, also after a crash, finds the old or the new content.
func WriteFile(name string, data []byte, mode fs.FileMode) error { return writeFile(name, data, mode) }

// writeFile replaces name in one step, so that a crash leaves the old or the new content.
func writeFile(name string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(data)
	err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(temp.Name(), name)
}
