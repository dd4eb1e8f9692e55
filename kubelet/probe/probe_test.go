package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// a is who answers in the tests.
type a struct {
	ip   string
	port int
}

func addressOf(t testing.TB, address string) a {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return a{host, number}
}

func (a a) target() Target {
	return Target{PodIP: a.ip, Container: &corev1.Container{Name: "c", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(a.port)}}}}
}

func serve(t testing.TB, handler http.HandlerFunc) a {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return addressOf(t, server.Listener.Addr().String())
}

func httpGet(change func(*corev1.HTTPGetAction)) *corev1.ProbeHandler {
	get := &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("web"), Scheme: corev1.URISchemeHTTP}
	if change != nil {
		change(get)
	}
	return &corev1.ProbeHandler{HTTPGet: get}
}

// check asks and compares; output is how the answer begins.
func check(t *testing.T, how *corev1.ProbeHandler, target Target, result Result, output string) {
	t.Helper()
	got, text, err := New("v1.37.2").Do(t.Context(), how, 5*time.Second, target)
	if err != nil || got != result || !strings.HasPrefix(text, output) {
		t.Errorf("got %v %q %v, want %v %q", got, text, err, result, output)
	}
}

func TestHTTP_Status(t *testing.T) {
	for status, want := range map[int]struct {
		result Result
		output string
	}{
		200: {Success, "body"}, 204: {Success, ""}, 399: {Warning, "Probe terminated redirects, Response body: body"},
		400: {Failure, "HTTP probe failed with statuscode: 400"}, 503: {Failure, "HTTP probe failed with statuscode: 503"},
	} {
		server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			if status != 204 {
				fmt.Fprint(w, "body")
			}
		})
		check(t, httpGet(nil), server.target(), want.result, want.output)
	}
}

func TestHTTP_Request(t *testing.T) {
	var got *http.Request
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	check(t, httpGet(func(g *corev1.HTTPGetAction) {
		g.Path = "/a/b?c=d"
		g.HTTPHeaders = []corev1.HTTPHeader{{Name: "X-Twice", Value: "1"}, {Name: "x-twice", Value: "2"}, {Name: "Host", Value: "example.com"}}
	}), server.target(), Success, "")
	if got.URL.String() != "/a/b?c=d" || got.Host != "example.com" || strings.Join(got.Header["X-Twice"], ",") != "1,2" {
		t.Errorf("%s, host %s, headers %v", got.URL, got.Host, got.Header)
	}
	if got.UserAgent() != "kube-probe/1.37" || got.Header.Get("Accept") != "*/*" || !got.Close || got.Header.Get("Accept-Encoding") != "" {
		t.Errorf("headers %v, close %v", got.Header, got.Close)
	}
	check(t, httpGet(func(g *corev1.HTTPGetAction) {
		g.Path = ""
		g.HTTPHeaders = []corev1.HTTPHeader{{Name: "User-Agent", Value: "mine"}, {Name: "Accept", Value: ""}}
	}), server.target(), Success, "")
	if _, accepts := got.Header["Accept"]; got.UserAgent() != "mine" || accepts || got.URL.Path != "/" {
		t.Errorf("path %s, headers %v", got.URL, got.Header)
	}
}

func TestHTTP_Redirects(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/local":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/away":
			http.Redirect(w, r, "http://192.0.2.1/", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			fmt.Fprint(w, "end")
		}
	})
	to := func(path string) *corev1.ProbeHandler {
		return httpGet(func(g *corev1.HTTPGetAction) { g.Path = path })
	}
	check(t, to("/local"), server.target(), Success, "end")
	check(t, to("/away"), server.target(), Warning, "Probe terminated redirects, Response body: <a href=\"http://192.0.2.1/\">")
	check(t, to("/loop"), server.target(), Failure, `Get "/loop": stopped after 10 redirects`)
}

func TestHTTP_LongAnswer(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for range 1000 {
			fmt.Fprint(w, strings.Repeat("x", 1000))
		}
	})
	result, output, err := New("v1.37.2").Do(t.Context(), httpGet(nil), 5*time.Second, server.target())
	if err != nil || result != Success || len(output) != outputLimit {
		t.Errorf("got %v with %d bytes, %v", result, len(output), err)
	}
}

func TestHTTP_Hangs(t *testing.T) {
	hang := make(chan struct{})
	server := serve(t, func(http.ResponseWriter, *http.Request) { <-hang })
	defer close(hang)
	result, output, err := New("v1.37.2").Do(t.Context(), httpGet(nil), 50*time.Millisecond, server.target())
	want := fmt.Sprintf(`Get "http://%s:%d/": context deadline exceeded (Client.Timeout exceeded while awaiting headers)`, server.ip, server.port)
	if err != nil || result != Failure || output != want {
		t.Errorf("got %v %q %v, want %q", result, output, err, want)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if result, output, err = New("v1.37.2").Do(ctx, httpGet(nil), time.Minute, server.target()); err != nil || result != Failure || !strings.HasSuffix(output, "context canceled") {
		t.Errorf("cancelled: %v %q %v", result, output, err)
	}
}

func TestHTTP_TLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Proto) }))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	defer server.Close()
	where := addressOf(t, server.Listener.Addr().String())
	check(t, httpGet(func(g *corev1.HTTPGetAction) { g.Scheme = corev1.URISchemeHTTPS }), where.target(), Success, "HTTP/1.1")
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	check(t, httpGet(func(g *corev1.HTTPGetAction) { g.Scheme = corev1.URISchemeHTTPS }), plain.target(), Failure,
		fmt.Sprintf(`Get "https://%s:%d/": http: server gave HTTP response to HTTPS client`, plain.ip, plain.port))
}

// raw answers every connection with the same bytes.
func raw(t *testing.T, answer string) a {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = conn.Write([]byte(answer))
			_ = conn.Close()
		}
	}()
	return addressOf(t, listener.Addr().String())
}

func TestHTTP_StrangeAnswers(t *testing.T) {
	check(t, httpGet(nil), raw(t, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").target(), Success, "ok")
	check(t, httpGet(nil), raw(t, "HTTP/1.0 200 OK\r\n\r\nuntil the end").target(), Success, "until the end")
	check(t, httpGet(nil), raw(t, "").target(), Failure, `Get "http://127.0.0.1:`)
	check(t, httpGet(nil), raw(t, "SSH-2.0-x\r\n").target(), Failure, `Get "http://127.0.0.1:`)
	result, _, err := New("").Do(t.Context(), httpGet(nil), time.Second, raw(t, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort").target())
	if result != Failure || err == nil {
		t.Errorf("an answer that breaks off: %v, %v", result, err)
	}
}

func TestTCP(t *testing.T) {
	open := serve(t, func(http.ResponseWriter, *http.Request) {})
	how := &corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(int32(open.port))}}
	check(t, how, open.target(), Success, "")
	check(t, how, Target{PodIP: "127.0.0.99", Container: &corev1.Container{}}, Failure, fmt.Sprintf("dial tcp 127.0.0.99:%d: connect: connection refused", open.port))
	how.TCPSocket.Host = "127.0.0.99"
	check(t, how, open.target(), Failure, "dial tcp 127.0.0.99")
}

func TestGRPC(t *testing.T) {
	listen := func(register func(*grpc.Server)) a {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := grpc.NewServer()
		register(server)
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		return addressOf(t, listener.Addr().String())
	}
	statuses := health.NewServer()
	statuses.SetServingStatus("ill", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	healthy := listen(func(s *grpc.Server) { grpc_health_v1.RegisterHealthServer(s, statuses) })
	other := listen(func(*grpc.Server) {})
	ask := func(port int, service string) *corev1.ProbeHandler {
		return &corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(port), Service: &service}}
	}
	check(t, ask(healthy.port, ""), healthy.target(), Success, "service healthy")
	check(t, ask(healthy.port, "ill"), healthy.target(), Failure, `service unhealthy (responded with "NOT_SERVING")`)
	check(t, ask(healthy.port, "no"), healthy.target(), Failure, "error: health rpc probe failed: rpc error: code = NotFound desc = unknown service")
	check(t, ask(other.port, ""), other.target(), Failure, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service grpc.health.v1.Health")
	result, output, err := New("").Do(t.Context(), ask(1, ""), 50*time.Millisecond, healthy.target())
	if err != nil || result != Failure || output != `timeout: failed to connect service "127.0.0.1:1" within 50ms: context deadline exceeded` {
		t.Errorf("nobody there: %v %q %v", result, output, err)
	}
}

func TestExec(t *testing.T) {
	how := &corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"cat", "$(FILE)", "$(SECRET)"}}}
	container := &corev1.Container{Env: []corev1.EnvVar{{Name: "FILE", Value: "/x"}, {Name: "SECRET", ValueFrom: &corev1.EnvVarSource{}}}}
	answer := func(output string, code int, err error) Target {
		return Target{Container: container, Exec: func(_ context.Context, command []string, timeout time.Duration, _ int) ([]byte, int, error) {
			if got := strings.Join(command, " "); got != "cat /x $(SECRET)" || timeout != 5*time.Second {
				t.Errorf("asked for %q with %v", got, timeout)
			}
			return []byte(output), code, err
		}}
	}
	check(t, how, answer("fine", 0, nil), Success, "fine")
	check(t, how, answer("cat: no such file", 1, nil), Failure, "cat: no such file")
	check(t, how, answer("", 0, fmt.Errorf("exec: %w", ErrTimeout)), Failure, `command "cat $(FILE) $(SECRET)" timed out`)
	broken := errors.New("container not running")
	if result, _, err := New("").Do(t.Context(), how, 5*time.Second, answer("", 0, broken)); result != Unknown || !errors.Is(err, broken) {
		t.Errorf("got %v, %v", result, err)
	}
	if how.Exec.Command[1] != "$(FILE)" {
		t.Error("the spec was changed")
	}
}

func TestPort(t *testing.T) {
	container := &corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080, HostPort: 80}}}
	for _, test := range []struct {
		port  intstr.IntOrString
		want  int
		fails string
	}{
		{intstr.FromInt32(90), 90, ""}, {intstr.FromString("web"), 8080, ""}, {intstr.FromString("90"), 90, ""},
		{intstr.FromString("no"), 0, `strconv.Atoi: parsing "no": invalid syntax`}, {intstr.FromInt32(0), 0, "invalid port number: 0"},
		{intstr.FromString("70000"), 0, "invalid port number: 70000"},
	} {
		got, err := Port(test.port, container)
		if got != test.want || fmt.Sprint(err) != test.fails && (err != nil || test.fails != "") {
			t.Errorf("%v: %d, %v", test.port.String(), got, err)
		}
	}
}

func TestHook(t *testing.T) {
	var got *http.Request
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.WriteHeader(http.StatusInternalServerError) // does not matter
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "1-2"}}
	run := func(hook corev1.LifecycleHandler, target Target) (string, error) {
		return New("v1.37.2").Hook(t.Context(), pod, &hook, target)
	}
	get := httpGet(func(g *corev1.HTTPGetAction) { g.Path = "/bye" }).HTTPGet
	if fallback, err := run(corev1.LifecycleHandler{HTTPGet: get}, server.target()); err != nil || fallback != "" || got.UserAgent() != "kube-lifecycle/1.37" || got.URL.Path != "/bye" {
		t.Errorf("httpGet: %q, %v, %v", fallback, err, got.Header)
	}
	get.Scheme = corev1.URISchemeHTTPS
	get.HTTPHeaders = []corev1.HTTPHeader{{Name: "Authorization", Value: "secret"}}
	fallback, err := run(corev1.LifecycleHandler{HTTPGet: get}, server.target())
	if want := fmt.Sprintf("request to HTTPS lifecycle hook %s:%d got HTTP response, retry with HTTP succeeded", server.ip, server.port); err != nil || fallback != want {
		t.Errorf("fallback: %q, %v, want %q", fallback, err, want)
	}
	if got.Header.Get("Authorization") != "" {
		t.Error("credentials were sent in the clear")
	}
	fails := func(hook corev1.LifecycleHandler, target Target, want string) {
		t.Helper()
		_, err := run(hook, target)
		var failed *HookError
		if !errors.As(err, &failed) || !strings.HasPrefix(failed.Message, want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	nobody := server.target()
	nobody.PodIP = ""
	fails(corev1.LifecycleHandler{HTTPGet: get}, nobody, `HTTP lifecycle hook (/bye) for Container "c" in Pod "web_ns(1-2)" failed - error: failed to find networking container`)
	target := Target{Container: &corev1.Container{Name: "c"}, Exec: func(_ context.Context, command []string, _ time.Duration, _ int) ([]byte, int, error) {
		return []byte("out"), len(command) - 1, nil
	}}
	if _, err := run(corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}, target); err != nil {
		t.Errorf("exec: %v", err)
	}
	fails(corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"a", "b"}}}, target,
		`Exec lifecycle hook ([a b]) for Container "c" in Pod "web_ns(1-2)" failed - error: command 'a b' exited with 1: out, message: "out"`)
	if _, err := run(corev1.LifecycleHandler{Sleep: &corev1.SleepAction{}}, target); err != nil {
		t.Errorf("sleep: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := New("").Hook(ctx, pod, &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 100}}, target); err == nil || !strings.HasSuffix(err.Error(), "container terminated before sleep hook finished") {
		t.Errorf("sleep that is interrupted: %v", err)
	}
	fails(corev1.LifecycleHandler{}, target, "Cannot run handler: invalid handler: ")
}

// BenchmarkHTTP is a probe of a server in the same process: both sides are counted.
func BenchmarkHTTP(b *testing.B) {
	server := serve(b, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	client, how, target := New("v1.37.2"), httpGet(nil), server.target()
	b.ReportAllocs()
	for b.Loop() {
		if result, output, err := client.Do(b.Context(), how, time.Second, target); result != Success {
			b.Fatal(output, err)
		}
	}
}

func BenchmarkTCP(b *testing.B) {
	server := serve(b, func(http.ResponseWriter, *http.Request) {})
	client, target := New("v1.37.2"), server.target()
	how := &corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("web")}}
	b.ReportAllocs()
	for b.Loop() {
		if result, output, err := client.Do(b.Context(), how, time.Second, target); result != Success {
			b.Fatal(output, err)
		}
	}
}
