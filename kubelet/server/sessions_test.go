package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
)

// protocols are the ways in which clients open sessions.
var protocols = []struct {
	name string
	dial func(config *rest.Config, at *url.URL) (remotecommand.Executor, error)
}{
	{"WebSocket", func(config *rest.Config, at *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutor(config, "GET", at.String())
	}},
	{"old WebSocket", func(config *rest.Config, at *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewWebSocketExecutorForProtocols(config, "GET", at.String(), "v4.channel.k8s.io")
	}},
	{"SPDY", func(config *rest.Config, at *url.URL) (remotecommand.Executor, error) {
		return remotecommand.NewSPDYExecutor(config, "POST", at)
	}},
}

// session is where the API server serves a session.
func (c *cluster) session(pod, sub string, options any) *url.URL {
	req := c.client.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name(pod).SubResource(sub)
	switch o := options.(type) {
	case *corev1.PodExecOptions:
		req.VersionedParams(o, scheme.ParameterCodec)
	case *corev1.PodAttachOptions:
		req.VersionedParams(o, scheme.ParameterCodec)
	}
	return req.URL()
}

func TestExec(t *testing.T) {
	c := start(t)
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			run := func(o *corev1.PodExecOptions, in string) (out, errOut string, err error) {
				t.Helper()
				var stdout, stderr bytes.Buffer
				streams := remotecommand.StreamOptions{Tty: o.TTY}
				if o.Stdin {
					streams.Stdin = strings.NewReader(in)
				}
				if o.Stdout {
					streams.Stdout = &stdout
				}
				if o.Stderr {
					streams.Stderr = &stderr
				}
				if o.TTY {
					streams.TerminalSizeQueue = sizes{make(chan remotecommand.TerminalSize, 1)}
					streams.TerminalSizeQueue.(sizes).c <- remotecommand.TerminalSize{Width: 120, Height: 40}
				}
				e, err := p.dial(c.Admin(), c.session("web", "exec", o))
				if err != nil {
					t.Fatal(err)
				}
				err = e.StreamWithContext(t.Context(), streams)
				return stdout.String(), stderr.String(), err
			}
			out, _, err := run(&corev1.PodExecOptions{Command: []string{"echo", "a b", "c&d"}, Stdout: true}, "")
			if err != nil || out != "fake://web-main: a b c&d\n" {
				t.Errorf("echo: %q, %v", out, err)
			}
			out, errOut, err := run(&corev1.PodExecOptions{Command: []string{"both"}, Stdout: true, Stderr: true}, "")
			if err != nil || out != "to stdout" || errOut != "to stderr" {
				t.Errorf("both: %q, %q, %v", out, errOut, err)
			}
			if p.name != "old WebSocket" { // which cannot end stdin
				large := strings.Repeat("0123456789", 100_000)
				if out, _, err = run(&corev1.PodExecOptions{Command: []string{"cat"}, Stdin: true, Stdout: true}, large); err != nil || out != large {
					t.Errorf("cat: %d bytes, %v", len(out), err)
				}
			}
			_, _, err = run(&corev1.PodExecOptions{Command: []string{"exit", "7"}, Stdout: true, Stderr: true}, "")
			var code exec.CodeExitError
			if !errors.As(err, &code) || code.Code != 7 {
				t.Errorf("exit: %v", err)
			}
			if out, _, err = run(&corev1.PodExecOptions{Command: []string{"size"}, Stdin: true, Stdout: true, TTY: true}, ""); err != nil || out != "true 120x40" {
				t.Errorf("size: %q, %v", out, err)
			}
			_, _, err = run(&corev1.PodExecOptions{Command: []string{"nonsense"}, Stdout: true, Stderr: true}, "")
			if err == nil || !strings.Contains(err.Error(), `"nonsense": executable file not found`) {
				t.Errorf("nonsense: %v", err)
			}
			_, _, err = run(&corev1.PodExecOptions{Command: []string{"echo"}, Stdout: true, Container: "x"}, "")
			if err == nil || !strings.Contains(err.Error(), "container x is not valid for pod web") {
				t.Errorf("unknown container: %v", err)
			}
		})
	}
}

// sizes is a terminal that has been resized.
type sizes struct {
	c chan remotecommand.TerminalSize
}

func (s sizes) Next() *remotecommand.TerminalSize {
	select {
	case size := <-s.c:
		return &size
	default:
		return nil
	}
}

func TestAttach(t *testing.T) {
	c := start(t)
	c.pod(t, "terminal", "tty", "other")
	for _, p := range protocols {
		if p.name == "old WebSocket" {
			continue // which cannot end stdin
		}
		for _, tty := range []bool{false, true} {
			pod, container := "web", "main"
			if tty {
				pod, container = "terminal", "tty"
			}
			e, err := p.dial(c.Admin(), c.session(pod, "attach", &corev1.PodAttachOptions{Container: container, Stdin: true, Stdout: true, TTY: tty}))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			err = e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Tty: tty})
			if want := fmt.Sprintf("attached to fake://%s-%s, tty %t: hello", pod, container, tty); err != nil || out.String() != want {
				t.Errorf("%s: got %q, %v, want %q", p.name, out.String(), err, want)
			}
		}
	}
}

// TestPortForward fetches a page through a forwarded port, in both ways.
func TestPortForward(t *testing.T) {
	c := start(t)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "page "+r.URL.Path) }))
	defer page.Close()
	_, port, err := net.SplitHostPort(page.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	at := c.session("web", "portforward", nil)
	transport, upgrader, err := spdy.RoundTripperFor(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(at, c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	forward := func(name string, new func(stop <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error)) {
		stop, ready, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		f, err := new(stop, ready)
		if err != nil {
			t.Fatal(err)
		}
		go func() { done <- f.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-done:
			t.Fatalf("%s: %v", name, err)
		}
		ports, err := f.GetPorts()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			response, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/%d", ports[0].Local, i))
			if code, text := body(t, response, err); code != 200 || text != fmt.Sprintf("page /%d", i) {
				t.Errorf("%s: got %d %q", name, code, text)
			}
		}
		close(stop)
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	mapping := []string{"0:" + port}
	forward("SPDY", func(stop <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error) {
		return portforward.New(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", at), mapping, stop, ready, io.Discard, io.Discard)
	})
	forward("WebSocket", func(stop <-chan struct{}, ready chan struct{}) (*portforward.PortForwarder, error) {
		return portforward.New(tunnel, mapping, stop, ready, io.Discard, io.Discard)
	})
}

// TestSessions_End: the end of the kubelet's server and that of the API server end sessions.
func TestSessions_End(t *testing.T) {
	for name, end := range map[string]func(c *cluster) error{
		"kubelet":    func(c *cluster) error { return c.stop() },
		"API server": func(c *cluster) error { return c.Stop() },
	} {
		for _, p := range protocols {
			c := start(t)
			e, err := p.dial(c.Admin(), c.session("web", "exec", &corev1.PodExecOptions{Command: []string{"cat"}, Stdin: true, Stdout: true}))
			if err != nil {
				t.Fatal(err)
			}
			in, hold := io.Pipe()
			out, began := io.Pipe()
			done := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				done <- e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: began})
			}()
			if _, err := hold.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := out.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if err := end(c); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			hold.Close()
			<-done // in whatever way a client takes it
			cancel()
		}
	}
}
