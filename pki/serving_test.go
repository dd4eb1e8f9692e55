package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSelfSigned_Ensure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	now := time.Now()
	want := SelfSigned{CommonName: "here", DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, key, err := want.Ensure(dir, "apiserver", now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil || len(pair.Certificate) != 2 {
		t.Fatalf("%d certificates, %v", len(pair.Certificate), err)
	}
	ca, err := x509.ParseCertificate(pair.Certificate[1])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	for _, name := range []string{"localhost", "127.0.0.1"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: %v, %v", info, err)
	}
	read := func() string {
		data, err := os.ReadFile(cert)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	first := read()
	if _, _, err := want.Ensure(dir, "apiserver", now.Add(300*24*time.Hour)); err != nil || read() != first {
		t.Errorf("a good certificate was replaced: %v", err)
	}
	if _, _, err := want.Ensure(dir, "apiserver", now.Add(340*24*time.Hour)); err != nil || read() == first {
		t.Errorf("a certificate that ends soon was kept: %v", err)
	}
	// What others have put there is not ours to replace.
	authority, err := NewAuthority("kubernetes", now.Add(-400*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := authority.Issue(Subject{CommonName: "theirs", Server: true}, now.Add(-400*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := theirs.save(strings.TrimSuffix(cert, ".crt")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := want.Ensure(dir, "apiserver", now); err != nil || read() != string(theirs.CertPEM()) {
		t.Errorf("a certificate of others was replaced: %v", err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if _, _, err := want.Ensure(dir, "apiserver", now); err == nil || !strings.Contains(err.Error(), "apiserver.key is missing") {
		t.Errorf("half a pair: %v", err)
	}
}

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	authority, err := NewAuthority("ca", now)
	if err != nil {
		t.Fatal(err)
	}
	files := func(name string, dns ...string) (certFile, keyFile string) {
		pair, err := authority.Issue(Subject{CommonName: name, DNSNames: dns, Server: true}, now)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Join(dir, name)
		if err := pair.save(base); err != nil {
			t.Fatal(err)
		}
		return base + ".crt", base + ".key"
	}
	pairOf := func(name string, dns []string, names ...string) NamedPair {
		certFile, keyFile := files(name, dns...)
		return NamedPair{CertFile: certFile, KeyFile: keyFile, Names: names}
	}
	certFile, keyFile := files("common")
	common, err := NewKeyPair(certFile, keyFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	certificates, err := NewCertificates(common, []NamedPair{
		pairOf("extracted", []string{"own.example", "both.example", "*.wild.example", "exact.star.example"}),
		pairOf("explicit", []string{"own.example"}, "both.example", "*.star.example", "192.0.2.7"),
		pairOf("later", nil, "both.example", "later.example"),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for name, want := range map[string]string{
		"own.example": "extracted", "OWN.example.": "extracted", "extracted": "extracted",
		"both.example": "explicit", "a.star.example": "explicit", "192.0.2.7": "explicit",
		"exact.star.example": "extracted", "a.wild.example": "extracted", "a.b.wild.example": "common",
		"later.example": "later", "other.example": "common", "": "common",
	} {
		got, err := certificates.GetCertificate(&tls.ClientHelloInfo{ServerName: name})
		if err != nil || got.Leaf.Subject.CommonName != want {
			t.Errorf("%q: %s, %v, want %s", name, got.Leaf.Subject.CommonName, err, want)
		}
	}
	// A client that connects to an address sends no name.
	certFile, keyFile = files("address")
	byAddress, err := NewCertificates(common, []NamedPair{{CertFile: certFile, KeyFile: keyFile, Names: []string{"127.0.0.1"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			shown <- err.Error()
			return
		}
		defer conn.Close()
		got, err := byAddress.GetCertificate(&tls.ClientHelloInfo{Conn: conn})
		if err != nil {
			shown <- err.Error()
			return
		}
		shown <- got.Leaf.Subject.CommonName
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := <-shown; got != "address" {
		t.Errorf("by address: %s", got)
	}
}
