package pki

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// startCounted starts a server that asks for certificates and counts connections, and makes a client for it.
func startCounted(t testing.TB, handler http.HandlerFunc) (client *http.Client, url string, connections *atomic.Int32) {
	t.Helper()
	config := Config{Dir: t.TempDir()}
	set, err := Ensure(config)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := NewKeyPair(set.Path("apiserver.crt"), set.Path("apiserver.key"), nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(set.Cluster.Cert)
	connections = new(atomic.Int32)
	server := &http.Server{
		Handler:   handler,
		TLSConfig: &tls.Config{GetCertificate: pair.GetCertificate, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots},
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		},
	}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() {
		server.Close()
		<-done
	})
	config.Server = "https://" + listener.Addr().String()
	if set, err = Ensure(config); err != nil {
		t.Fatal(err)
	}
	loaded, err := ClientConfig(filepath.Join(set.Dir, "admin.conf"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if client, err = rest.HTTPClientFor(loaded); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client, config.Server, connections
}

// A client that begins with several requests at once opens one connection, also when the first answer takes long.
func TestClientConfig_OneConnection(t *testing.T) {
	const requests = 8
	var arrived atomic.Int32
	all := make(chan struct{})
	client, url, connections := startCounted(t, func(w http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == requests {
			close(all)
		}
		<-all
	})
	var sending sync.WaitGroup
	for range requests {
		sending.Go(func() {
			resp, err := client.Get(url)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
		})
	}
	sending.Wait()
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections for %d requests at once", n, requests)
	}
}
