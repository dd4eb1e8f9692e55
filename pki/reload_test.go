package pki

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"vigil/internal/eventually"
)

// A server and a client whose files are renewed go over to what is new without a request that fails, and what is under way
// stays on its connection.
func TestReload(t *testing.T) {
	config := Config{Dir: t.TempDir()}
	set, err := Ensure(config)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := NewKeyPair(set.Path("apiserver.crt"), set.Path("apiserver.key"), nil)
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan struct{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(set.Cluster.Cert)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		if r.URL.Path == "/slow" {
			<-release
		}
		io.WriteString(w, r.TLS.PeerCertificates[0].SerialNumber.String())
	}), TLSConfig: &tls.Config{GetCertificate: pair.GetCertificate, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots}}
	done := make(chan error, 1)
	go func() { done <- server.ServeTLS(listener, "", "") }()
	defer func() {
		server.Close()
		<-done
	}()

	address := listener.Addr().String()
	config.Server = "https://" + address
	if set, err = Ensure(config); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(set.Dir, "admin.conf")
	client, err := ClientConfig(kubeconfig, nil)
	if err != nil {
		t.Fatal(err)
	}
	hc, err := rest.HTTPClientFor(client)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) *http.Response {
		resp, err := hc.Get(config.Server + path)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	body := func(resp *http.Response) string {
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	slow, before := get("/slow"), body(get("/"))
	if slow.ProtoMajor != 2 {
		t.Errorf("HTTP/%d", slow.ProtoMajor)
	}
	serving := func() string {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: "localhost"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	served := serving()

	for _, file := range []string{kubeconfig, set.Path("apiserver.crt"), set.Path("apiserver.key")} {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	if body(get("/")) != before {
		t.Error("what is in use is lost with the files")
	}
	if _, err := Ensure(config); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the client has its new certificate", func() bool { return body(get("/")) != before })
	eventually.True(t, "the server has its new certificate", func() bool { return serving() != served })
	close(release)
	if got := body(slow); got != before {
		t.Errorf("a request under way ended with %q", got)
	}
}

// A pair that does not fit, as between two writes, is not taken over.
func TestKeyPair_HalfWritten(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	ca, err := NewAuthority("ca", now)
	if err != nil {
		t.Fatal(err)
	}
	write := func(part string) {
		t.Helper()
		pair, err := ca.Issue(Subject{CommonName: "x", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true}, now)
		if err != nil {
			t.Fatal(err)
		}
		key, err := pair.KeyPEM()
		if err != nil {
			t.Fatal(err)
		}
		if part != "crt" {
			if err := os.WriteFile(filepath.Join(dir, "x.key"), key, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if part != "key" {
			if err := os.WriteFile(filepath.Join(dir, "x.crt"), pair.CertPEM(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write("")
	pair, err := NewKeyPair(filepath.Join(dir, "x.crt"), filepath.Join(dir, "x.key"), nil)
	if err != nil {
		t.Fatal(err)
	}
	first := pair.Certificate()
	write("key")
	pair.files.next.Store(0) // it is time to look
	if pair.Certificate() != first {
		t.Fatal("a key without its certificate was taken over")
	}
	write("")
	eventually.True(t, "the new pair is seen", func() bool { return pair.Certificate() != first })
}
