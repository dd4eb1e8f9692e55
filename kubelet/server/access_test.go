package server_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/remotecommand"

	"vigil/internal/panics"
	"vigil/internal/slis"
	"vigil/kubelet/server"
	"vigil/pki"
)

// TestAccess is who may do what at the kubelet's port.
func TestAccess(t *testing.T) {
	c := start(t, func(config *server.Config) {
		config.Handlers = map[string]http.Handler{"GET /stats/summary": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })}
		config.Configz = func() any { return map[string]int{"port": 10250} }
		config.Healthy = map[string]func(*http.Request) error{"syncloop": func(*http.Request) error { return nil }}
		config.SLIs = slis.New()
	})
	c.rights.grant("lea get nodes/metrics", "tom get nodes/stats", "tom get nodes/healthz", "ann get nodes/proxy", "ann create nodes/proxy", "lea get nodes/log", "lea get nodes/configz", "reader get nodes/proxy")
	c.write(t, "messages", []byte("boot"))
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, c.file("link")); err != nil {
		t.Fatal(err)
	}
	foreign, err := pki.NewAuthority("others", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	stranger := c.stranger(t, foreign)
	clients := map[string]*http.Client{
		"nobody":    c.direct(t, c.Anonymous()),
		"admin":     c.direct(t, c.Admin()),
		"stranger":  stranger,
		"ann":       c.direct(t, c.Client("ann")),
		"lea":       c.direct(t, c.Client("lea")),
		"reader":    c.direct(t, c.Client("reader")),
		"other":     c.direct(t, c.Client("system:node:other", "system:nodes")),
		"tom":       c.direct(t, c.Anonymous()), // by token
		"a liar":    c.direct(t, c.Anonymous()), // by a token that is none
		"ann twice": c.direct(t, c.Client("ann")),
	}
	tokens := map[string]string{"tom": "secret-of-tom", "a liar": "nonsense"}
	forbidden := func(user, verb, subs string) string {
		return fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=[%s])\n", user, verb, subs)
	}
	for _, tc := range []struct {
		who, method, path string
		code              int
		want              string
	}{
		{"nobody", "GET", "/pods", 401, "Unauthorized"},
		{"nobody", "GET", "/healthz", 401, "Unauthorized"},
		{"stranger", "GET", "/pods", 401, "Unauthorized"},
		{"a liar", "GET", "/pods", 401, "Unauthorized"},
		{"a liar", "GET", "/pods", 401, "Unauthorized"},
		{"other", "GET", "/pods", 403, forbidden("system:node:other", "get", "pods proxy")},
		{"other", "POST", "/exec/default/web/main?command=ls&output=1", 403, forbidden("system:node:other", "create", "proxy")},
		{"tom", "GET", "/stats/summary", 200, "{}"},
		{"tom", "GET", "/healthz", 200, "ok"},
		{"tom", "GET", "/healthz/syncloop", 200, "ok"},
		{"lea", "GET", "/metrics/slis", 200, "# HELP kubernetes_healthcheck Whether a health check passed when it was last asked: 1 or 0.\n# TYPE kubernetes_healthcheck gauge\n" +
			"kubernetes_healthcheck{name=\"log\",type=\"healthz\"} 1\nkubernetes_healthcheck{name=\"ping\",type=\"healthz\"} 1\nkubernetes_healthcheck{name=\"syncloop\",type=\"healthz\"} 1\n" +
			"# HELP kubernetes_healthchecks_total How often a health check was asked, by what it found.\n# TYPE kubernetes_healthchecks_total counter\n" +
			"kubernetes_healthchecks_total{name=\"log\",status=\"success\",type=\"healthz\"} 1\nkubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 1\nkubernetes_healthchecks_total{name=\"syncloop\",status=\"success\",type=\"healthz\"} 1\n"},
		{"tom", "GET", "/healthz/nonsense", 404, "404 page not found\n"},
		{"tom", "GET", "/metrics", 403, forbidden("tom", "get", "metrics")},
		{"tom", "GET", "/pods", 403, forbidden("tom", "get", "pods proxy")},
		{"tom", "GET", "/logs/messages", 403, forbidden("tom", "get", "log")},
		{"tom", "POST", "/stats/summary", 403, forbidden("tom", "create", "stats")},
		{"tom", "GET", "/stats/../pods", 403, forbidden("tom", "get", "pods proxy")}, // by way of a redirect
		{"tom", "GET", "/stats%2f..%2fpods", 404, "404 page not found\n"},
		{"tom", "GET", "/stats/summary/../../exec/default/web/main?command=ls&output=1", 403, forbidden("tom", "create", "proxy")},
		{"reader", "GET", "/containerLogs/default/web/none", 404, "container \"none\" not found in pod \"web\""},
		{"reader", "GET", "/exec/default/web/main?command=ls&output=1", 403, forbidden("reader", "create", "proxy")},
		{"reader", "GET", "/portForward/default/web", 403, forbidden("reader", "create", "proxy")},
		{"ann", "GET", "/runningpods/", 200, ""},
		{"ann", "GET", "/configz", 200, `{"kubeletconfig":{"port":10250}}`},
		{"ann", "GET", "/stats/summary", 403, forbidden("ann", "get", "stats")},
		{"ann", "GET", "/nonsense", 404, "404 page not found\n"},
		{"ann", "DELETE", "/pods", 403, forbidden("ann", "delete", "pods proxy")},
		{"ann", "POST", "/exec/default/web/main?command=ls", 400, "you must specify at least 1 of stdin, stdout, stderr"},
		{"ann", "POST", "/exec/default/gone/main?command=ls&output=1", 404, "pod does not exist"},
		{"ann", "POST", "/exec/default/web/none?command=ls&output=1", 500, "container not found (\"none\")"},
		{"ann", "POST", "/attach/default/web/none?output=1", 500, "container none not found in pod web_default"},
		{"ann", "POST", "/exec/default/web/wrong-uid/main?command=ls&output=1", 404, "pod not found"},
		{"ann", "GET", "/containerLogs/default/gone/main", 404, "pod \"gone\" does not exist"},
		{"ann", "GET", "/containerLogs/default/web/none", 404, "container \"none\" not found in pod \"web\""},
		{"ann", "GET", "/containerLogs/default/web/main?tailLines=x", 400, "{\"message\": \"Unable to decode query.\"}"},
		{"ann", "GET", "/containerLogs/default/web/main?limitBytes=0", 422, "{\"message\": \"Invalid request.\"}"},
		{"lea", "GET", "/logs/messages", 200, "boot"},
		{"lea", "GET", "/logs/link", 500, ""}, // leads elsewhere
		{"lea", "GET", "/configz", 200, `{"kubeletconfig":{"port":10250}}`},
		{"admin", "POST", "/checkpoint/default/web/main", 405, ""}, // this runtime cannot
		{"admin", "POST", "/pods", 405, "Method Not Allowed\n"},
	} {
		var headers []string
		if token := tokens[tc.who]; token != "" {
			headers = append(headers, "Authorization: Bearer "+token)
		}
		code, text := do(t, clients[tc.who], tc.method, c.url+tc.path, headers...)
		if code != tc.code && !(tc.path == "/checkpoint/default/web/main" && code == 404) && !(tc.path == "/logs/link" && code == 404) || tc.want != "" && text != tc.want {
			t.Errorf("%s %s %s: got %d %q, want %d %q", tc.who, tc.method, tc.path, code, text, tc.code, tc.want)
		}
	}
}

// stranger is a client with a certificate of another authority.
func (c *cluster) stranger(t *testing.T, ca *pki.Pair) *http.Client {
	t.Helper()
	pair, err := ca.Issue(pki.Subject{CommonName: "admin", Organizations: []string{"system:masters"}, Client: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	shown, err := tls.X509KeyPair(pair.CertPEM(), key)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		InsecureSkipVerify:   true,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown, nil },
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestMetrics: those of probes are shown apart, as upstream has it.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "prober_probe_total"}))
	c := start(t, func(config *server.Config) { config.Metrics, config.Registerer = registry, registry })
	client := c.direct(t, c.Admin())
	for path, want := range map[string][2]string{
		"/metrics":        {`kubelet_http_requests_total{long_running="false",method="GET",path="metrics",server_type="readwrite"} 1`, "prober_"},
		"/metrics/probes": {"prober_probe_total 0", "kubelet_http"},
	} {
		code, text := do(t, client, "GET", c.url+path)
		if code != 200 || !strings.Contains(text, want[0]) || strings.Contains(text, want[1]) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}

// TestAccess_Remembered: the API server is asked once for the same.
func TestAccess_Remembered(t *testing.T) {
	c := start(t)
	c.rights.grant("ann get nodes/pods")
	ann, bob := c.direct(t, c.Client("ann")), c.direct(t, c.Client("bob"))
	for range 5 {
		if code, text := do(t, ann, "GET", c.url+"/pods"); code != 200 {
			t.Fatalf("%d %s", code, text)
		}
		if code, text := do(t, bob, "GET", c.url+"/healthz"); code != 403 {
			t.Fatalf("%d %s", code, text)
		}
	}
	c.rights.mu.Lock()
	defer c.rights.mu.Unlock()
	if c.rights.asked != 3 { // ann's pods, bob's healthz and proxy
		t.Errorf("asked %d times", c.rights.asked)
	}
}

// TestExec_NeedsCreate: a WebSocket is opened by a GET, and "get" is not enough.
func TestExec_NeedsCreate(t *testing.T) {
	c := start(t)
	c.rights.grant("reader get pods/exec", "writer get pods/exec", "writer create pods/exec", "poster create pods/exec")
	run := func(user, protocol string) error {
		for _, p := range protocols {
			if p.name != protocol {
				continue
			}
			e, err := p.dial(c.Client(user), c.session("web", "exec", &corev1.PodExecOptions{Command: []string{"echo"}, Stdout: true}))
			if err != nil {
				return err
			}
			var out strings.Builder
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			return e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out})
		}
		return nil
	}
	const refused = `User "reader" cannot create resource "pods/exec" in API group "" in the namespace "default"`
	if err := run("reader", "WebSocket"); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("reader: %v", err)
	}
	if err := run("reader", "SPDY"); err == nil || !strings.Contains(err.Error(), refused) {
		t.Errorf("reader over SPDY: %v", err)
	}
	if err := run("poster", "WebSocket"); err == nil || !strings.Contains(err.Error(), `cannot get resource "pods/exec"`) {
		t.Errorf("poster: %v", err)
	}
	for _, ok := range [][2]string{{"writer", "WebSocket"}, {"writer", "SPDY"}, {"poster", "SPDY"}} {
		if err := run(ok[0], ok[1]); err != nil {
			t.Errorf("%s by %s: %v", ok[0], ok[1], err)
		}
	}
}

// TestPanic: a request that panics is counted, and health tells of it.
func TestPanic(t *testing.T) {
	c := start(t, func(config *server.Config) { config.Configz = func() any { panic("planted") } })
	counted := panics.Count(panics.KubeletRequest)
	admin := c.direct(t, c.Admin())
	if answer, err := admin.Get(c.url + "/configz"); err == nil {
		answer.Body.Close()
		t.Errorf("a request that panics was answered with %s", answer.Status)
	}
	if n := panics.Count(panics.KubeletRequest) - counted; n != 1 {
		t.Errorf("%d panics were counted, want 1", n)
	}
	code, text := do(t, admin, "GET", c.url+"/healthz?verbose")
	if code != 200 || !strings.Contains(text, "\n[!]panics recovered: ") || !strings.Contains(text, "kubelet-request") || !strings.HasSuffix(text, "\nhealthz check passed\n") {
		t.Errorf("health: %d %s", code, text)
	}
	if code, text := do(t, admin, "GET", c.url+"/healthz/panics"); code != 200 || !strings.HasPrefix(text, "recovered: ") {
		t.Errorf("the check alone: %d %s", code, text)
	}
}
