package componentserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/health"
	"vigil/internal/eventually"
	"vigil/internal/panics"
	"vigil/internal/porttest"
	"vigil/pki"
)

// rights are those of a cluster with a monitoring system: members of its group may read metrics, the component may ask for reviews.
type rights struct{}

func (rights) Authorize(_ context.Context, a *authz.Attributes) (bool, string, error) {
	return a.User.InGroup(authn.GroupMasters) ||
		a.User.Name == "component" && (strings.HasSuffix(a.Resource, "reviews") || a.Resource == "configmaps") ||
		a.User.InGroup("system:monitoring") && a.Verb == "get" && strings.HasPrefix(a.Path, "/metrics"), "", nil
}

// world is an API server and a component beside it.
type world struct {
	t          *testing.T
	api        *apiservertest.Server
	admin      *kubernetes.Clientset
	kubeconfig string // of user component
	proxies    *pki.Pair
	broken     atomic.Bool // whether the component's health check fails
}

func newWorld(t *testing.T) *world {
	dir := t.TempDir()
	w := &world{t: t, kubeconfig: filepath.Join(dir, "component.conf")}
	tokens := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(tokens, []byte("t-mon,mon,1,system:monitoring\nt-ann,ann,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.api = apiservertest.Start(t, func(c *apiserver.Config) {
		c.Authorizer = rights{}
		c.Authentication.TokenFile = tokens
	})
	w.admin = w.api.Clientset()
	client := w.api.Client("component")
	config := clientcmdapi.NewConfig()
	config.Clusters["a"] = &clientcmdapi.Cluster{Server: client.Host, CertificateAuthorityData: client.CAData}
	config.AuthInfos["a"] = &clientcmdapi.AuthInfo{ClientCertificateData: client.CertData, ClientKeyData: client.KeyData}
	config.Contexts["a"], config.CurrentContext = &clientcmdapi.Context{Cluster: "a", AuthInfo: "a"}, "a"
	if err := clientcmd.WriteToFile(*config, w.kubeconfig); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.proxies, err = pki.NewAuthority("front-proxy-ca", time.Now()); err != nil {
		t.Fatal(err)
	}
	return w
}

// publish writes the ConfigMap with the authorities of clients.
func (w *world) publish(clientCA string) {
	w.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}
	if _, err := w.admin.CoreV1().Namespaces().Create(w.t.Context(), ns, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		w.t.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: published}, Data: map[string]string{
		"client-ca-file": clientCA, "requestheader-client-ca-file": string(w.proxies.CertPEM()),
		"requestheader-allowed-names": `["front"]`, "requestheader-username-headers": `["X-Remote-User"]`, "requestheader-group-headers": `["X-Remote-Group"]`,
	}}
	maps := w.admin.CoreV1().ConfigMaps("kube-system")
	_, err := maps.Create(w.t.Context(), object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = maps.Update(w.t.Context(), object, metav1.UpdateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) check(context.Context) error {
	if w.broken.Load() {
		return errors.New("stuck")
	}
	return nil
}

// serve runs a component's server and returns its address.
func (w *world) serve(change func(*Config)) string {
	w.t.Helper()
	port := porttest.Free(w.t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "of_the_component"}))
	config := Config{
		Name: "kube-component", Port: port, Gatherer: registry, Logger: slog.New(slog.NewTextHandler(w.t.Output(), nil)),
		Checks: []health.Check{{Name: "work", Func: w.check}},
		Access: Access{AuthenticationKubeconfig: w.kubeconfig, AuthorizationKubeconfig: w.kubeconfig, TokenTTL: DefaultTTL, AllowedTTL: DefaultTTL, RefusedTTL: DefaultTTL},
	}
	change(&config)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- config.Run(ctx) }()
	w.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			w.t.Errorf("server: %v", err)
		}
	})
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	eventually.Nil(w.t, "the server listens", func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case end := <-ended:
			ended <- nil
			w.t.Fatalf("server: %v", end)
		default:
		}
		return err
	})
	return address
}

// client shows a certificate of an authority, nil: none.
func (w *world) client(config *rest.Config, ca *pki.Pair, name string) *http.Client {
	w.t.Helper()
	own := &tls.Config{InsecureSkipVerify: true}
	switch {
	case ca != nil:
		pair, err := ca.Issue(pki.Subject{CommonName: name, Client: true}, time.Now())
		if err != nil {
			w.t.Fatal(err)
		}
		own.Certificates = []tls.Certificate{{Certificate: [][]byte{pair.Cert.Raw}, PrivateKey: pair.Key}}
	case config != nil:
		pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
		if err != nil {
			w.t.Fatal(err)
		}
		own.Certificates = []tls.Certificate{pair}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: own, ForceAttemptHTTP2: true}}
	w.t.Cleanup(client.CloseIdleConnections)
	return client
}

func (w *world) get(client *http.Client, url string, header ...string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "https://"+url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	answer, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// TestAccess: who may see what of a component, with every sort of credentials.
func TestAccess(t *testing.T) {
	w := newWorld(t)
	w.publish(string(w.api.Admin().CAData))
	address := w.serve(func(*Config) {})
	nobody, front := w.client(nil, nil, ""), w.client(nil, w.proxies, "front")
	for _, test := range []struct {
		what   string
		client *http.Client
		path   string
		header []string
		code   int
		body   string
	}{
		{"health without credentials", nobody, "/healthz", nil, 200, "ok"},
		{"a single check", nobody, "/livez?verbose", nil, 200, "[+]work ok"},
		{"metrics without credentials", nobody, "/metrics", nil, 403, `forbidden: User \"system:anonymous\" cannot get path \"/metrics\"`},
		{"metrics with a token that may", nobody, "/metrics", []string{"Authorization: Bearer t-mon"}, 200, "of_the_component"},
		{"the same again, from what is kept", nobody, "/metrics", []string{"Authorization: Bearer t-mon"}, 200, "of_the_component"},
		{"indicators", nobody, "/metrics/slis", []string{"Authorization: Bearer t-mon"}, 200, `kubernetes_healthcheck{name="work",type="livez"} 1`},
		{"metrics with a token that may not", nobody, "/metrics", []string{"Authorization: Bearer t-ann"}, 403, `User \"ann\" cannot get path`},
		{"an unknown token", nobody, "/metrics", []string{"Authorization: Bearer wrong"}, 401, "Unauthorized"},
		{"an unknown token, at what is for everybody", nobody, "/healthz", []string{"Authorization: Bearer wrong"}, 401, "Unauthorized"},
		{"a certificate of an administrator", w.client(w.api.Admin(), nil, ""), "/metrics", nil, 200, "of_the_component"},
		{"a certificate that may not", w.client(w.api.Client("joe"), nil, ""), "/metrics", nil, 403, `User \"joe\"`},
		{"a certificate of nobody we know", w.client(nil, w.proxies, "joe"), "/metrics", nil, 401, "Unauthorized"},
		{"a front proxy", front, "/metrics", []string{"X-Remote-User: mon", "X-Remote-Group: system:monitoring"}, 200, "of_the_component"},
		{"headers without a proxy", nobody, "/metrics", []string{"X-Remote-User: mon", "X-Remote-Group: system:monitoring"}, 403, "system:anonymous"},
		{"profiles", w.client(w.api.Admin(), nil, ""), "/debug/pprof/", nil, 200, "goroutine"},
		{"profiles without the right", nobody, "/debug/pprof/", []string{"Authorization: Bearer t-mon"}, 403, `cannot get path \"/debug/pprof/\"`},
	} {
		if code, body := w.get(test.client, address+test.path, test.header...); code != test.code || !strings.Contains(body, test.body) {
			t.Errorf("%s: %d %.300s, want %d %s", test.what, code, body, test.code, test.body)
		}
	}
	w.broken.Store(true)
	if code, body := w.get(nobody, address+"/healthz"); code != 500 || !strings.Contains(body, "[-]work failed") {
		t.Errorf("a failing check: %d %s", code, body)
	}
}

// TestAccess_NothingGiven is upstream's default: without kubeconfigs, tokens are not looked at, and only administrators see more than health.
func TestAccess_NothingGiven(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, w.api.Admin().CAData, 0o600); err != nil {
		t.Fatal(err)
	}
	address := w.serve(func(c *Config) {
		c.Access, c.NoProfiling = Access{ClientCAFile: file, AlwaysAllowPaths: []string{"/healthz", "/open/*"}}, true
	})
	nobody, admin := w.client(nil, nil, ""), w.client(w.api.Admin(), nil, "")
	for path, want := range map[string]int{"/healthz": 200, "/livez": 403, "/metrics": 403, "/open/this": 404} {
		if code, body := w.get(nobody, address+path, "Authorization: Bearer t-mon"); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
	for path, want := range map[string]int{"/metrics": 200, "/debug/pprof/": 404} {
		if code, body := w.get(admin, address+path); code != want {
			t.Errorf("administrator, %s: %d %s, want %d", path, code, body, want)
		}
	}
}

// TestAccess_Lookup: authorities that the cluster publishes are looked up at the start and again later.
func TestAccess_Lookup(t *testing.T) {
	w := newWorld(t)
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	access := Access{AuthenticationKubeconfig: w.kubeconfig}
	if _, err := newCallers(t.Context(), access, log); err == nil || !strings.Contains(err.Error(), published) {
		t.Errorf("nothing is published: %v", err)
	}
	access.TolerateLookupFailure = true
	c, err := newCallers(t.Context(), access, log)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.NewAuthority("kubernetes", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{CommonName: "joe", Client: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	who := func() string {
		r := (&http.Request{URL: w.url(), Header: http.Header{}, TLS: &tls.ConnectionState{}}).WithContext(t.Context())
		r.TLS.PeerCertificates = append(r.TLS.PeerCertificates, pair.Cert)
		user, err := c.authenticate(r)
		if err != nil {
			return err.Error()
		}
		return user.Name
	}
	if got := who(); got != authn.NameAnonymous {
		t.Errorf("before the authorities are known: %s", got)
	}
	w.publish(string(authority.CertPEM()))
	c.looked = time.Now().Add(-2 * lookEvery)
	if got := who(); got != "joe" {
		t.Errorf("after they were published: %s", got)
	}
	w.publish(string(w.api.Admin().CAData))
	if got := who(); got != "joe" {
		t.Errorf("looked up again at once: %s", got)
	}
	c.looked = time.Now().Add(-2 * lookEvery)
	if got := who(); !strings.Contains(got, "signed by unknown authority") {
		t.Errorf("after other ones were published: %s", got)
	}
	if err := w.api.Stop(); err != nil {
		t.Fatal(err)
	}
	c.looked = time.Now().Add(-2 * lookEvery)
	if got := who(); !strings.Contains(got, "signed by unknown authority") {
		t.Errorf("while nobody answers: %s", got)
	}
}

// mine panics when it is written.
type mine struct{}

func (mine) MarshalJSON() ([]byte, error) { panic("planted") }

// TestPanic: a request that panics is counted, and health tells of it.
func TestPanic(t *testing.T) {
	w := newWorld(t)
	w.publish(string(w.api.Admin().CAData))
	address := w.serve(func(c *Config) { c.Configz = map[string]any{"kube-component": mine{}} })
	counted := panics.Count(panics.ComponentRequest)
	admin := w.client(w.api.Admin(), nil, "")
	if answer, err := admin.Get("https://" + address + "/configz"); err == nil {
		answer.Body.Close()
		t.Errorf("a request that panics was answered with %s", answer.Status)
	}
	if n := panics.Count(panics.ComponentRequest) - counted; n != 1 {
		t.Errorf("%d panics were counted, want 1", n)
	}
	if code, body := w.get(admin, address+"/healthz?verbose"); code != 200 || !strings.Contains(body, "\n[!]panics recovered: ") || !strings.Contains(body, "component-request") {
		t.Errorf("health: %d %s", code, body)
	}
}

func (*world) url() *url.URL { return &url.URL{Path: "/metrics"} }
