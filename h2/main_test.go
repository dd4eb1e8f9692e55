package h2

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"vigil/internal/leaktest"
)

// TestMain fails the package when a goroutine of it or of net/http has outlived the tests.
func TestMain(m *testing.M) {
	if os.Getenv(peerVariable) != "" {
		servePeer()
		return
	}
	leaktest.MainExcept(m, []string{"fuzz"}, "vigil/h2", "net/http")
}

// certificate is made once: it is not what is tested.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "127.0.0.1"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

func serverTLS() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certificate()}, MinVersion: tls.VersionTLS12}
}

// instance is a running server.
type instance struct {
	*Server
	http *http.Server
	addr string // host:port
	url  string
}

// start serves s behind net/http on a port of its own until the test ends. change may alter the http.Server.
func start(t testing.TB, s *Server, change ...func(*http.Server)) *instance {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	i := &instance{Server: s, addr: l.Addr().String(), url: "https://" + l.Addr().String()}
	i.http = &http.Server{Handler: s.Handler, TLSConfig: serverTLS(), ErrorLog: log.New(io.Discard, "", 0)}
	for _, f := range change {
		f(i.http)
	}
	s.Configure(i.http)
	served := make(chan error, 1)
	go func() { served <- i.http.ServeTLS(NewListener(l), "", "") }()
	t.Cleanup(func() {
		i.http.Close()
		s.Close()
		<-served
	})
	return i
}

func clientTLS(protos ...string) *tls.Config {
	pool := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(certificate().Certificate[0])
	if err != nil {
		panic(err)
	}
	pool.AddCert(leaf)
	return &tls.Config{RootCAs: pool, ServerName: "127.0.0.1", NextProtos: protos}
}

// client returns net/http's client for HTTP/2, with a connection of its own.
func client(t testing.TB) *http.Client {
	tr := &http.Transport{TLSClientConfig: clientTLS(), ForceAttemptHTTP2: true, ExpectContinueTimeout: 5 * time.Minute}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 5 * time.Minute}
}
