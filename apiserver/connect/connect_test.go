package connect_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authz"
	"vigil/internal/attacktest"
)

// grants is an authorizer: the verbs that one user has for every subresource. Others may do what they may.
type grants struct {
	authz.Authorizer
	user  string
	verbs string
}

func (g grants) Authorize(ctx context.Context, a *authz.Attributes) (bool, string, error) {
	if a.User.Name != g.user {
		return g.Authorizer.Authorize(ctx, a)
	}
	for verb := range strings.FieldsSeq(g.verbs) {
		if verb == a.Verb {
			return true, "", nil
		}
	}
	return false, "", nil
}

// world is a server whose only node has a kubelet that answers as a test has it, and a pod there, whose web server that is, too.
type world struct {
	*testing.T
	*apiservertest.Server
	client *http.Client // of an administrator, over HTTP/1.1
	asked  atomic.Int64 // how often the kubelet was
}

// start starts it. user has verbs.
func start(t *testing.T, user, verbs string, kubelet http.HandlerFunc) *world {
	t.Helper()
	w := &world{T: t}
	node := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.asked.Add(1)
		kubelet(rw, r)
	}))
	t.Cleanup(node.Close)
	w.begin(user, verbs, node.Listener.Addr())
	return w
}

// begin starts the API server; the kubelet is at an address.
func (w *world) begin(user, verbs string, kubelet net.Addr) {
	w.Helper()
	w.Server = apiservertest.Start(w.T, func(c *apiserver.Config) {
		c.Connections.AllowLoopback, c.Connections.Kubelets.Timeout = true, time.Second
		c.Authorizer = grants{c.Authorizer, user, verbs}
	})
	w.client = w.as("admin", "system:masters")
	host, port, err := net.SplitHostPort(kubelet.String())
	if err != nil {
		w.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		w.Fatal(err)
	}
	c, ctx := w.Clientset().CoreV1(), w.Context()
	if _, err = c.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	if _, err = c.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(number)}},
	}}, metav1.CreateOptions{}); err != nil {
		w.Fatal(err)
	}
	pod, err := c.Pods("x").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i", Ports: []corev1.ContainerPort{{ContainerPort: int32(number)}}}},
	}}, metav1.CreateOptions{})
	if err == nil {
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: host, PodIPs: []corev1.PodIP{{IP: host}}}
		_, err = c.Pods("x").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// as is an HTTP/1.1 client of a user that follows no redirect.
func (w *world) as(user string, groups ...string) *http.Client {
	w.Helper()
	config := w.Client(user, groups...)
	config.NextProtos = []string{"http/1.1"}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		w.Fatal(err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.Cleanup(client.CloseIdleConnections)
	return client
}

// do sends a request and returns the code and what it is answered.
func (w *world) do(client *http.Client, method, path string, header ...string) (*http.Response, string) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, w.URL+path, nil)
	if err != nil {
		w.Fatal(err)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	// The server ends the connection of a refused upgrade without announcing it, as upstream's does: net/http repeats requests with this header,
	// which is not sent, on another one.
	req.Header["Idempotency-Key"] = nil
	resp, err := client.Do(req)
	if err != nil {
		w.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // a response may end early
	return resp, string(body)
}

const (
	pod     = "/api/v1/namespaces/x/pods/p"
	exec    = pod + "/exec?command=ls&stdout=1"
	attach  = pod + "/attach?stdout=1"
	forward = pod + "/portforward?ports=80"
)

var (
	spdy   = []string{"Connection: Upgrade", "Upgrade: SPDY/3.1", "X-Stream-Protocol-Version: v4.channel.k8s.io"}
	socket = []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol: v4.channel.k8s.io"}
)

// TestAuthorization: whoever may only get may not enter a pod with a WebSocket, whose handshake is a GET.
func TestAuthorization(t *testing.T) {
	for _, tc := range []struct {
		verbs, method string
		code          int
		message       string
	}{
		{"get", "GET", 403, `cannot create resource "pods/%s"`},
		{"create", "GET", 403, `cannot get resource "pods/%s"`},
		{"get create", "GET", 418, "the kubelet was asked"},
		{"get", "POST", 403, `cannot create resource "pods/%s"`},
		{"create", "POST", 418, "the kubelet was asked"},
	} {
		t.Run(tc.method+" with "+tc.verbs, func(t *testing.T) {
			w := start(t, "u", tc.verbs, func(rw http.ResponseWriter, _ *http.Request) {
				http.Error(rw, "the kubelet was asked", http.StatusTeapot)
			})
			u := w.as("u")
			for sub, path := range map[string]string{"exec": exec, "attach": attach, "portforward": forward} {
				header := spdy
				if tc.method == "GET" {
					header = socket
				}
				want := tc.message
				if strings.Contains(want, "%s") {
					want = fmt.Sprintf(want, sub)
				}
				resp, body := w.do(u, tc.method, path, header...)
				if resp.StatusCode != tc.code || !strings.Contains(body, want) && !strings.Contains(body, strings.ReplaceAll(want, `"`, `\"`)) {
					t.Errorf("%s: got %s %s, want %d %s", sub, resp.Status, body, tc.code, want)
				}
			}
			if asked := w.asked.Load(); (asked > 0) != (tc.code == 418) {
				t.Errorf("the kubelet was asked %d times", asked)
			}
		})
	}
}

// TestRedirects: the server goes nowhere that a kubelet or a pod sends it.
func TestRedirects(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	w := start(t, "", "", func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, other.URL+"/secret", http.StatusFound)
	})
	for _, tc := range []struct {
		method, path string
		header       []string
	}{
		{"POST", exec, spdy}, {"GET", exec, socket}, {"POST", attach, spdy}, {"POST", forward, spdy},
		{"GET", pod + "/log", nil},
		{"GET", "/api/v1/namespaces/x/pods/https:p:/proxy/a", nil}, {"GET", "/api/v1/namespaces/x/pods/https:p:/proxy/a", socket},
		{"GET", "/api/v1/nodes/n/proxy/a", nil}, {"GET", "/api/v1/nodes/n/proxy/a", spdy},
	} {
		before := w.asked.Load()
		resp, body := w.do(w.client, tc.method, tc.path, tc.header...)
		if w.asked.Load() == before || resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			t.Errorf("%s %s: got %s %s", tc.method, tc.path, resp.Status, body)
		}
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("the server followed %d redirects", n)
	}
}

// TestRefused: what the kubelet says when it refuses a session is what the client is told, and a request that is no upgrade is refused by the server.
func TestRefused(t *testing.T) {
	w := start(t, "", "", func(rw http.ResponseWriter, _ *http.Request) { http.Error(rw, "not today", http.StatusForbidden) })
	for _, path := range []string{exec, attach, forward} {
		if resp, body := w.do(w.client, "POST", path, spdy...); resp.StatusCode != http.StatusForbidden || !strings.Contains(body, "not today") {
			t.Errorf("%s: got %s %s", path, resp.Status, body)
		}
		before := w.asked.Load()
		if resp, body := w.do(w.client, "POST", path); resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, "Upgrade request required") || w.asked.Load() != before {
			t.Errorf("%s without an upgrade: got %s %s", path, resp.Status, body)
		}
	}
	at, err := url.Parse(w.URL + exec)
	if err != nil {
		t.Fatal(err)
	}
	for name, dial := range map[string]func() (remotecommand.Executor, error){
		"SPDY": func() (remotecommand.Executor, error) { return remotecommand.NewSPDYExecutor(w.Admin(), "POST", at) },
		"WebSocket": func() (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(w.Admin(), "GET", at.String())
		},
	} {
		executor, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		if err := executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: io.Discard}); err == nil {
			t.Errorf("%s: a refused session succeeds", name)
		}
	}
}

// TestDeadKubelet: a kubelet that is not there, or does not say a word, is given up, and the client is told.
func TestDeadKubelet(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, nobody shakes hands
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, address := range map[string]net.Addr{"gone": gone.Addr(), "silent": silent.Addr()} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t}
			w.begin("", "", address)
			for _, tc := range []struct {
				method, path string
				header       []string
			}{{"POST", exec, spdy}, {"POST", forward, spdy}, {"GET", pod + "/log", nil}, {"GET", "/api/v1/nodes/n/proxy/healthz", nil}} {
				resp, body := w.do(w.client, tc.method, tc.path, tc.header...)
				if resp.StatusCode < 500 || !strings.Contains(body, address.String()) && !strings.Contains(body, "error trying to reach service") && !strings.Contains(body, "timeout") {
					t.Errorf("%s %s: got %s %s", tc.method, tc.path, resp.Status, body)
				}
			}
		})
	}
}

// TestCredentials: what proves who the caller is does not reach kubelets and pods.
func TestCredentials(t *testing.T) {
	var mu sync.Mutex
	var seen []http.Header
	w := start(t, "", "", func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.Header.Clone())
		rw.WriteHeader(http.StatusTeapot)
	})
	header := []string{"Authorization: Bearer secret", "Impersonate-User: admin", "Impersonate-Group: system:masters", "X-Remote-User: root", "X-Remote-Group: system:masters", "X-Remote-Extra-A: b", "X-Own: kept"}
	for _, path := range []string{exec, "/api/v1/namespaces/x/pods/https:p:/proxy/a", "/api/v1/nodes/n/proxy/a"} {
		w.do(w.client, "POST", path, append(header, spdy...)...)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(seen) != 3 {
		t.Fatalf("%d requests came through", len(seen))
	}
	for _, h := range seen {
		for name := range h {
			if name == "Authorization" || strings.HasPrefix(name, "Impersonate-") || strings.HasPrefix(name, "X-Remote-") {
				t.Errorf("%s: %q is passed on", name, h[name])
			}
		}
		if h.Get("X-Own") != "kept" {
			t.Errorf("headers of the caller's own are lost: %v", h)
		}
	}
}

// TestAttack_Streams: however much flows, and whoever does not read, little of it is held.
func TestAttack_Streams(t *testing.T) {
	const amount = 128 << 20
	chunk := bytes.Repeat([]byte("s"), 1<<20)
	pour := func(to io.Writer, stop <-chan struct{}) {
		for range amount / len(chunk) {
			if _, err := to.Write(chunk); err != nil {
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}
	for _, tc := range []struct {
		name, path string
		header     []string
		answer     string // of the kubelet, before it pours
		read       bool
	}{
		{"a response that is read", "/api/v1/nodes/n/proxy/a", nil, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", true},
		{"a response that is not read", "/api/v1/nodes/n/proxy/a", nil, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", false},
		{"a session that is read", exec, spdy, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n", true},
		{"a session that is not read", exec, spdy, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n", false},
		{"a refusal without an end", exec, spdy, "HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n", true},
		{"a header of a session without an end", exec, spdy, "HTTP/1.1 101 Switching Protocols\r\nX-Large: ", true},
		{"a header without an end", "/api/v1/nodes/n/proxy/a", nil, "HTTP/1.1 200 OK\r\nX-Large: ", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			stop := make(chan struct{})
			w := start(t, "", "", func(rw http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(rw).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				if _, err := io.WriteString(conn, tc.answer); err == nil {
					pour(conn, stop)
				}
			})
			attacktest.Budget{Memory: 24 << 20}.Spend(t, func() {
				method := "GET"
				if tc.header != nil {
					method = "POST"
				}
				req, err := http.NewRequestWithContext(t.Context(), method, w.URL+tc.path, nil)
				if err != nil {
					t.Error(err)
					return
				}
				for _, h := range tc.header {
					name, value, _ := strings.Cut(h, ": ")
					req.Header.Add(name, value)
				}
				resp, err := w.client.Do(req)
				if err != nil {
					t.Logf("no answer: %v", err)
					return
				}
				defer resp.Body.Close()
				if tc.read {
					n, err := io.Copy(io.Discard, bufio.NewReader(resp.Body))
					t.Logf("%s, %d bytes, %v", resp.Status, n, err)
				} else {
					time.Sleep(500 * time.Millisecond) // for what would be held to come
				}
			})
			close(stop)
		})
	}
}
