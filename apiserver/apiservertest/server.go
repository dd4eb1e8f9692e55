// Package apiservertest starts a complete API server for tests: an embedded etcd in a temporary directory, the watch
// caches, all kinds, and TLS with client certificates on a loopback port. Nothing in it is fake.
package apiservertest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/admission/plugins"
	"vigil/kinds"
	"vigil/kinds/all"
	"vigil/pki"
	"vigil/store"
	"vigil/store/storetest"
)

// Server is a running API server.
type Server struct {
	*apiserver.Server
	Table *kinds.Table
	Store *store.Store
	URL   string // https://127.0.0.1:PORT

	t    testing.TB
	ca   *pki.Pair
	stop func() error
}

// An Option changes the configuration before the server starts.
type Option func(*apiserver.Config)

// Start starts a server and waits until it is ready. It is stopped when the test ends, which fails when the server
// ended by itself.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := Prepare(t, options...)
	s.run()
	return s
}

// Prepare makes a server that does not run: its caches are not loaded and nobody listens. Handler reaches it.
func Prepare(t testing.TB, options ...Option) *Server {
	t.Helper()
	s := &Server{Table: all.Table(), Store: storetest.New(t), t: t}
	config := s.config()
	t.Cleanup(func() { config.Listener.Close() }) // which Run does, too
	for _, o := range options {
		o(&config)
	}
	var err error
	if s.Server, err = apiserver.New(config); err != nil {
		t.Fatal(err)
	}
	return s
}

// config writes the certificates and returns the configuration of a server with them.
func (s *Server) config() apiserver.Config {
	s.t.Helper()
	dir := s.t.TempDir()
	now := time.Now()
	must := func(err error) {
		if err != nil {
			s.t.Helper()
			s.t.Fatalf("prepare API server: %v", err)
		}
	}
	var err error
	s.ca, err = pki.NewAuthority("kubernetes", now)
	must(err)
	serving, err := s.ca.Issue(pki.Subject{
		CommonName: "kube-apiserver", DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true,
	}, now)
	must(err)
	key, err := serving.KeyPEM()
	must(err)
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, data, 0o600))
		return path
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	s.URL = "https://" + listener.Addr().String()
	return apiserver.Config{
		Listener:     listener,
		TLSCertFile:  write("apiserver.crt", serving.CertPEM()),
		TLSKeyFile:   write("apiserver.key", key),
		ClientCAFile: write("ca.crt", s.ca.CertPEM()),
		Store:        s.Store,
		Kinds:        s.Table,
		Authorizer:   components{},
		// No controllers make service accounts here, nobody says that nodes are ready, and no test waits five minutes for an eviction.
		Admission: plugins.Config{Disable: []string{"ServiceAccount", "TaintNodesByCondition", "DefaultTolerationSeconds"}},
		Logger:    slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
}

// Begin runs a server that Prepare has made, and waits until it is ready.
func (s *Server) Begin() {
	s.t.Helper()
	s.run()
}

func (s *Server) run() {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	s.t.Cleanup(func() {
		if err := s.stop(); err != nil {
			s.t.Errorf("API server: %v", err)
		}
	})
	ready, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if err := s.WaitReady(ready); err != nil {
		s.t.Fatalf("API server is not ready: %v", err)
	}
}

// Stop stops the server as a signal would and returns what its Run returned. The store stays.
func (s *Server) Stop() error { return s.stop() }

// Settle waits until the caches, from which clients and authorizers hear of objects, have all that was written before.
func (s *Server) Settle(t testing.TB) {
	t.Helper()
	revision, err := s.Store.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Caches().WaitFresh(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
}

// Handler returns the server's handler for requests that do not come over the network, as sent by a user in groups.
func (s *Server) Handler(user string, groups ...string) http.Handler {
	s.t.Helper()
	pair, err := s.ca.Issue(pki.Subject{CommonName: user, Organizations: groups, Client: true}, time.Now())
	if err != nil {
		s.t.Fatalf("issue client certificate: %v", err)
	}
	state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Cert}}
	ctx := s.Server.ConnContext(s.t.Context())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(ctx)
		r.TLS = state
		s.Server.ServeHTTP(w, r)
	})
}

// Client returns the configuration of a client with a certificate for a user in groups.
func (s *Server) Client(user string, groups ...string) *rest.Config {
	s.t.Helper()
	pair, err := s.ca.Issue(pki.Subject{CommonName: user, Organizations: groups, Client: true}, time.Now())
	if err != nil {
		s.t.Fatalf("issue client certificate: %v", err)
	}
	key, err := pair.KeyPEM()
	if err != nil {
		s.t.Fatalf("encode client key: %v", err)
	}
	return &rest.Config{
		Host:            s.URL,
		QPS:             -1, // tests do not wait for their own rate limit
		TLSClientConfig: rest.TLSClientConfig{CAData: s.ca.CertPEM(), CertData: pair.CertPEM(), KeyData: key},
	}
}

// Admin returns the configuration of an administrator's client.
func (s *Server) Admin() *rest.Config { return s.Client("admin", "system:masters") }

// Anonymous returns the configuration of a client without a certificate.
func (s *Server) Anonymous() *rest.Config {
	return &rest.Config{Host: s.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca.CertPEM()}}
}

// Clientset returns a typed client of an administrator.
func (s *Server) Clientset() *kubernetes.Clientset {
	s.t.Helper()
	c, err := kubernetes.NewForConfig(s.Admin())
	if err != nil {
		s.t.Fatalf("make client: %v", err)
	}
	return c
}
