package authn_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"vigil/apiserver/authn"
	"vigil/internal/eventually"
	"vigil/pki"
)

// world is two authorities, of clients and of proxies, and a chain that trusts them.
type world struct {
	t              testing.TB
	dir            string
	clients, proxy *pki.Pair
	chain          *authn.Chain
	anonymous      authn.AnonymousRule
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, dir: t.TempDir()}
	w.clients, w.proxy = w.authority("clients"), w.authority("proxy")
	tokens := filepath.Join(w.dir, "tokens.csv")
	w.write(tokens, "t0ken,ann,7,\"devs,ops\"\nother,bob,8\n")
	file, err := authn.NewTokenFile(tokens, []string{"api"})
	if err != nil {
		t.Fatal(err)
	}
	w.chain, err = authn.New(authn.Config{
		ClientCAFile: filepath.Join(w.dir, "clients.crt"),
		Proxy: authn.Proxy{
			CAFile: filepath.Join(w.dir, "proxy.crt"), AllowedNames: []string{"front"},
			UsernameHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"},
			GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
		},
		Tokens: []authn.Token{file}, Anonymous: &w.anonymous,
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) authority(name string) *pki.Pair {
	w.t.Helper()
	ca, err := pki.NewAuthority(name, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(filepath.Join(w.dir, name+".crt"), string(ca.CertPEM()))
	return ca
}

func (w *world) write(file, text string) {
	w.t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) cert(ca *pki.Pair, name string, groups ...string) *x509.Certificate {
	w.t.Helper()
	pair, err := ca.Issue(pki.Subject{CommonName: name, Organizations: groups, Client: true}, time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	return pair.Cert
}

func request(cert *x509.Certificate, headers ...string) *http.Request {
	r, _ := http.NewRequest(http.MethodGet, "/api", nil)
	r.TLS = new(tls.ConnectionState)
	if cert != nil {
		r.TLS.PeerCertificates = []*x509.Certificate{cert}
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

func TestChain(t *testing.T) {
	w := newWorld(t)
	stranger := w.cert(w.authority("stranger"), "ann")
	front, other := w.cert(w.proxy, "front"), w.cert(w.proxy, "other")
	ann := w.cert(w.clients, "ann", "devs")
	const user, group = "X-Remote-User", "X-Remote-Group"
	for _, tc := range []struct {
		name string
		r    *http.Request
		want *authn.User // nil: refused
		left http.Header // of the request afterwards
	}{
		{"nothing", request(nil), &authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}, http.Header{}},
		{"certificate", request(ann), &authn.User{Name: "ann", Groups: []string{"devs", "system:authenticated"}}, http.Header{}},
		{"stranger", request(stranger), nil, nil},
		{"stranger with a good token", request(stranger, "Authorization", "Bearer t0ken"), &authn.User{Name: "ann", UID: "7", Groups: []string{"devs", "ops", "system:authenticated"}}, http.Header{}},
		{"certificate before token", request(ann, "Authorization", "Bearer other"), &authn.User{Name: "ann", Groups: []string{"devs", "system:authenticated"}}, http.Header{"Authorization": {"Bearer other"}}},
		{"token", request(nil, "Authorization", "bearer other"), &authn.User{Name: "bob", UID: "8", Groups: []string{"system:authenticated"}}, http.Header{}},
		{"unknown token", request(nil, "Authorization", "Bearer x"), nil, nil},
		{"empty token", request(nil, "Authorization", "Bearer "), &authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}, http.Header{"Authorization": {"Bearer "}}},
		{"basic", request(nil, "Authorization", "Basic eDp5"), &authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}, http.Header{"Authorization": {"Basic eDp5"}}},
		{
			"proxy", request(front, user, "eve", group, "a", group, "b", "X-Remote-Uid", "9", "X-Remote-Extra-Example.com%2fScope", "s", "X-Other", "stays"),
			&authn.User{Name: "eve", UID: "9", Groups: []string{"a", "b", "system:authenticated"}, Extra: map[string][]string{"example.com/scope": {"s"}}},
			http.Header{"X-Other": {"stays"}},
		},
		{"proxy for nobody", request(front), nil, nil},
		{"proxy with another name", request(other, user, "eve"), nil, nil},
		{"client plays proxy", request(ann, user, "system:admin", group, "system:masters"), &authn.User{Name: "ann", Groups: []string{"devs", "system:authenticated"}}, http.Header{user: {"system:admin"}, group: {"system:masters"}}},
		{"nobody plays proxy", request(nil, user, "system:admin", group, "system:masters"), &authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}, http.Header{user: {"system:admin"}, group: {"system:masters"}}},
		{"stranger plays proxy", request(stranger, user, "system:admin"), nil, nil},
		{
			"websocket", request(nil, "Upgrade", "websocket", "Sec-WebSocket-Protocol", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.b3RoZXI"),
			&authn.User{Name: "bob", UID: "8", Groups: []string{"system:authenticated"}},
			http.Header{"Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"v5.channel.k8s.io"}},
		},
		{"websocket with nothing but a token", request(nil, "Upgrade", "websocket", "Sec-WebSocket-Protocol", "base64url.bearer.authorization.k8s.io.b3RoZXI"), nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := w.chain.Authenticate(tc.r, new(authn.Connection), time.Now())
			if tc.want == nil {
				if err == nil {
					t.Errorf("let in as %+v", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Extra[authn.ExtraCredentialID]) > 0 {
				got = &authn.User{Name: got.Name, UID: got.UID, Groups: got.Groups}
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("user (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.left, tc.r.Header); diff != "" {
				t.Errorf("headers left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChain_Anonymous(t *testing.T) {
	w := newWorld(t)
	conn := new(authn.Connection)
	w.anonymous.Set(true, []string{"/healthz"})
	if _, err := w.chain.Authenticate(request(nil), conn, time.Now()); !errors.Is(err, authn.ErrNoCredentials) {
		t.Errorf("/api is not open to all: %v", err)
	}
	w.anonymous.Set(true, []string{"/api"})
	if _, err := w.chain.Authenticate(request(nil), conn, time.Now()); err != nil {
		t.Error(err)
	}
	w.anonymous.Set(false, nil)
	if _, err := w.chain.Authenticate(request(nil), conn, time.Now()); !errors.Is(err, authn.ErrNoCredentials) {
		t.Errorf("anonymous requests are off: %v", err)
	}
}

// A certificate that ends while its connection is open ends with it, and so does one whose authority is no longer trusted.
func TestChain_ConnectionOutlivesCertificate(t *testing.T) {
	w := newWorld(t)
	conn, r := new(authn.Connection), request(w.cert(w.clients, "ann"))
	now := time.Now()
	if _, err := w.chain.Authenticate(r, conn, now); err != nil {
		t.Fatal(err)
	}
	if _, err := w.chain.Authenticate(r, conn, now.Add(366*24*time.Hour)); err == nil {
		t.Error("an expired certificate is good on an open connection")
	}
	w.authority("clients") // writes other authorities into the file
	eventually.True(t, "the new authorities are seen", func() bool {
		_, err := w.chain.Authenticate(r, conn, now)
		return err != nil
	})
}

// A request on a known connection costs no memory.
func TestChain_Allocations(t *testing.T) {
	w := newWorld(t)
	conn, r, now := new(authn.Connection), request(w.cert(w.clients, "ann"), "User-Agent", "x", "Accept", "y"), time.Now()
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := w.chain.Authenticate(r, conn, now); err != nil {
			t.Fatal(err)
		}
	}); n > 0.1 { // a look at the files now and then
		t.Errorf("%v allocations for each request", n)
	}
}

func TestTokenFile_Audiences(t *testing.T) {
	w := newWorld(t)
	if _, good, err := w.chain.AuthenticateToken(context.Background(), "other", []string{"x", "api"}); err != nil || !cmp.Equal(good, []string{"api"}) {
		t.Errorf("got %v, %v", good, err)
	}
	if _, _, err := w.chain.AuthenticateToken(context.Background(), "other", []string{"x"}); !errors.Is(err, authn.ErrUnknownToken) {
		t.Errorf("a token is good for others: %v", err)
	}
}

// BenchmarkChain is what authentication adds to a request: by a certificate on a connection that is known, and by
// nothing.
func BenchmarkChain(b *testing.B) {
	w := newWorld(b)
	for name, r := range map[string]*http.Request{
		"certificate": request(w.cert(w.clients, "ann"), "User-Agent", "x", "Accept", "y"),
		"anonymous":   request(nil, "User-Agent", "x", "Accept", "y"),
	} {
		b.Run(name, func(b *testing.B) {
			conn, now := new(authn.Connection), time.Now()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.chain.Authenticate(r, conn, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
