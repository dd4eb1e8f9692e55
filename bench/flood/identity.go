package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// authority is the CA of a cluster.
type authority struct {
	pair tls.Certificate
	cert *x509.Certificate
	pem  []byte
}

func loadAuthority(dir string) (*authority, error) {
	file := filepath.Join(dir, "pki", "ca")
	pair, err := tls.LoadX509KeyPair(file+".crt", file+".key")
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(file + ".crt")
	return &authority{pair: pair, cert: cert, pem: data}, err
}

// issue makes a client certificate.
func (a *authority) issue(user string, groups ...string) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: user, Organization: groups},
		NotBefore:    time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.pair.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}), nil
}

func (a *authority) client(server, user string, groups ...string) (*kubernetes.Clientset, error) {
	cert, key, err := a.issue(user, groups...)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(&rest.Config{Host: "https://" + server, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: a.pem, CertData: cert, KeyData: key}})
}

// write puts a certificate into files of dir.
func (a *authority) write(dir, file, user string) error {
	cert, key, err := a.issue(user)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, file+".crt"), cert, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, file+".key"), key, 0o600)
}
