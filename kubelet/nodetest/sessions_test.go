package nodetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"

	"vigil/apiserver"
	"vigil/apiserver/connect"
	"vigil/internal/eventually"
	"vigil/internal/porttest"
	"vigil/kubelet/node"
	"vigil/pki"
)

// serving is a node whose kubelet is reached through the API server.
func serving(t *testing.T) *Node {
	t.Helper()
	dir, now := t.TempDir(), time.Now()
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	ca, err := pki.NewAuthority("kubelets", now)
	must(err)
	file := func(name string) string { return filepath.Join(dir, name) }
	issue := func(name string, subject pki.Subject) {
		pair, err := ca.Issue(subject, now)
		must(err)
		key, err := pair.KeyPEM()
		must(err)
		must(os.WriteFile(file(name+".crt"), pair.CertPEM(), 0o600))
		must(os.WriteFile(file(name+".key"), key, 0o600))
	}
	issue("serving", pki.Subject{CommonName: "system:node:" + Name, IPs: []net.IP{net.ParseIP(Address)}, Server: true})
	issue("client", pki.Subject{CommonName: "kube-apiserver-kubelet-client", Organizations: []string{"system:masters"}, Client: true})
	must(os.WriteFile(file("ca.crt"), ca.CertPEM(), 0o600))
	return Start(t, func(config *node.Config) {
		config.Real.Server = node.Server{Port: porttest.Free(t), CertFile: file("serving.crt"), KeyFile: file("serving.key"), ClientCAFile: file("ca.crt")}
	}, func(config *apiserver.Config) {
		config.Connections = connect.Config{OwnNodes: []string{Name}, Kubelets: connect.Kubelets{CertFile: file("client.crt"), KeyFile: file("client.key"), CAFile: file("ca.crt")}}
		config.Connections.Kubelets.PreferredAddressTypes = []string{"InternalIP"}
	})
}

// exec runs a command by WebSocket or SPDY, and returns what it printed.
func (n *Node) exec(ws bool, pod string, options *corev1.PodExecOptions, in io.Reader) (string, error) {
	req := n.Client.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name(pod).SubResource("exec")
	var out bytes.Buffer
	err := n.session(ws, req.VersionedParams(options, scheme.ParameterCodec), remotecommand.StreamOptions{Stdin: in, Stdout: &out, Tty: options.TTY})
	return out.String(), err
}

func (n *Node) attach(ws bool, pod string, in io.Reader, out io.Writer) error {
	req := n.Client.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name(pod).SubResource("attach")
	options := &corev1.PodAttachOptions{Stdin: true, Stdout: true}
	return n.session(ws, req.VersionedParams(options, scheme.ParameterCodec), remotecommand.StreamOptions{Stdin: in, Stdout: out})
}

func (n *Node) session(ws bool, req *rest.Request, streams remotecommand.StreamOptions) error {
	var e remotecommand.Executor
	var err error
	if ws {
		e, err = remotecommand.NewWebSocketExecutor(n.API.Admin(), "GET", req.URL().String())
	} else {
		e, err = remotecommand.NewSPDYExecutor(n.API.Admin(), "POST", req.URL())
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), eventually.Limit)
	defer cancel()
	return e.StreamWithContext(ctx, streams)
}

func TestSessions(t *testing.T) {
	node := serving(t)
	node.Create(Pod("web", "serve"))
	for _, name := range []string{"shell-true", "shell-false"} {
		shell := Pod(name, "sh")
		shell.Spec.RestartPolicy = corev1.RestartPolicyNever
		shell.Spec.Containers[0].Stdin = true
		node.Create(shell)
	}
	node.Ready("web")
	for _, ws := range []bool{true, false} {
		t.Run(fmt.Sprintf("WebSocket %t", ws), func(t *testing.T) {
			run := func(in io.Reader, tty bool, command ...string) (string, error) {
				return node.exec(ws, "web", &corev1.PodExecOptions{
					Command: append([]string{"demo"}, command...), Stdin: in != nil, Stdout: true, TTY: tty,
				}, in)
			}
			if out, err := run(nil, false, "echo", "a b"); err != nil || out != "a b\n" {
				t.Errorf("echo: %q, %v", out, err)
			}
			if out, err := run(nil, true, "echo", "a b"); err != nil || out != "a b\r\n" {
				t.Errorf("echo on a terminal: %q, %v", out, err)
			}
			if out, err := run(strings.NewReader("echo one\nhostname\n"), false, "sh"); err != nil || !strings.Contains(out, "one\n") || !strings.Contains(out, "web\n") {
				t.Errorf("sh: %q, %v", out, err)
			}
			var code exec.CodeExitError
			if _, err := run(nil, false, "exit", "7"); !errors.As(err, &code) || code.Code != 7 {
				t.Errorf("exit: %v", err)
			}
			if _, err := node.exec(ws, "web", &corev1.PodExecOptions{Command: []string{"nonsense"}, Stdout: true}, nil); err == nil || !strings.Contains(err.Error(), `exec: "nonsense": executable file not found`) {
				t.Errorf("nonsense: %v", err)
			}
			shell := fmt.Sprintf("shell-%t", ws)
			node.Ready(shell)
			in, say := io.Pipe()
			heard, out := io.Pipe()
			attached := make(chan error, 1)
			go func() {
				attached <- node.attach(ws, shell, in, out)
				out.Close()
			}()
			if _, err := io.WriteString(say, "echo attached\n"); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(heard)
			if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "attached") { // behind a prompt, maybe
				t.Fatalf("attach: %q, %v", line, err)
			}
			if _, err := io.WriteString(say, "exit\n"); err != nil {
				t.Fatal(err)
			}
			say.Close()
			if _, err := io.Copy(io.Discard, r); err != nil {
				t.Error(err)
			}
			if err := <-attached; err != nil {
				t.Errorf("attach: %v", err)
			}
			node.Await(shell, "has ended", func(pod *corev1.Pod) error {
				if pod.Status.Phase != corev1.PodSucceeded {
					return errors.New("it has not")
				}
				return nil
			})
			if _, err := node.exec(ws, shell, &corev1.PodExecOptions{Command: []string{"demo"}, Stdout: true}, nil); err == nil || !strings.Contains(err.Error(), `container not found ("c")`) {
				t.Errorf("exec after the end: %v", err)
			}
		})
	}
}

func TestPortForward(t *testing.T) {
	node := serving(t)
	node.Create(Pod("web", "serve"))
	node.Ready("web")
	at := node.Client.CoreV1().RESTClient().Get().Namespace("default").Resource("pods").Name("web").SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(node.API.Admin())
	if err != nil {
		t.Fatal(err)
	}
	tunnel, err := portforward.NewSPDYOverWebsocketDialer(at, node.API.Admin())
	if err != nil {
		t.Fatal(err)
	}
	plain := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", at)
	stop, done := make(chan struct{}), make(chan error, 2)
	var forwarders []*portforward.PortForwarder
	for i, dialer := range []interface {
		Dial(protocols ...string) (httpstream.Connection, string, error)
	}{tunnel, plain} {
		up := make(chan struct{})
		f, err := portforward.New(dialer, []string{"0:8080"}, stop, up, io.Discard, io.Discard)
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		go func() { done <- f.ForwardPorts() }()
		select {
		case <-up:
		case err := <-done:
			t.Fatalf("%d: %v", i, err)
		}
		forwarders = append(forwarders, f)
	}
	for i, f := range forwarders {
		ports, err := f.GetPorts()
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/version", ports[0].Local))
		if err != nil {
			t.Errorf("%d: %v", i, err)
			continue
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != 200 || len(text) == 0 {
			t.Errorf("%d: got %d %q, %v", i, response.StatusCode, text, err)
		}
	}
	close(stop)
	for range forwarders {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestLogs(t *testing.T) {
	node := serving(t)
	logs := func(pod string, o *corev1.PodLogOptions) (string, error) {
		stream, err := node.Client.CoreV1().Pods("default").GetLogs(pod, o).Stream(t.Context())
		if err != nil {
			return "", err
		}
		defer stream.Close()
		data, err := io.ReadAll(stream)
		return string(data), err
	}
	lines := Pod("talks", "sh", "-c", "echo one; echo two; sleep 1; echo three")
	lines.Spec.RestartPolicy = corev1.RestartPolicyNever
	node.Create(lines)
	node.Await("talks", "has begun", func(pod *corev1.Pod) error {
		if pod.Status.Phase == corev1.PodPending {
			return errors.New("it has not")
		}
		return nil
	})
	stream, err := node.Client.CoreV1().Pods("default").GetLogs("talks", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var got []string
	for s := bufio.NewScanner(stream); s.Scan(); {
		got = append(got, s.Text())
	}
	if strings.Join(got, " ") != "one two three" {
		t.Errorf("followed %q", got)
	}
	if text, err := logs("talks", &corev1.PodLogOptions{TailLines: new(int64(1))}); err != nil || text != "three\n" {
		t.Errorf("tail: %q, %v", text, err)
	}

	node.Create(Pod("crashes", "sh", "-c", "echo before; exit 3"))
	node.Await("crashes", "was restarted", func(pod *corev1.Pod) error {
		if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].RestartCount == 0 {
			return errors.New("it was not")
		}
		return nil
	})
	if text, err := logs("crashes", &corev1.PodLogOptions{Previous: true}); err != nil || text != "before\n" {
		t.Errorf("previous: %q, %v", text, err)
	}
	broken := Pod("broken", "serve")
	broken.Spec.Containers[0].Image = "none:1"
	broken.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
	node.Create(broken)
	node.Event("broken", "ErrImageNeverPull", "")
	if _, err := logs("broken", &corev1.PodLogOptions{}); err == nil || err.Error() != `container "c" in pod "broken" is waiting to start: ErrImageNeverPull` {
		t.Errorf("broken: %v", err)
	}
}
