package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/connect"
	"vigil/kubelet"
	"vigil/kubelet/server"
	"vigil/pki"
)

const nodeName = "node-1"

// cluster is an API server, a kubelet's server and, behind it, sessions as a container runtime serves them.
type cluster struct {
	*apiservertest.Server
	client  *kubernetes.Clientset
	node    *node
	dir     string // with the certificates
	ca      *pki.Pair
	url     string // of the kubelet
	port    int
	stop    func() error // stops the kubelet's server
	rights  *rights
	config  server.Config
	kubelet *server.Server
}

// rights says who may do what beside administrators: "user verb resource/subresource". Nobody else may do anything.
type rights struct {
	mu      sync.Mutex
	granted map[string]bool
	asked   int
}

func (r *rights) grant(lines ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range lines {
		r.granted[l] = true
	}
}

func (r *rights) Authorize(_ context.Context, a *authz.Attributes) (bool, string, error) {
	if a.User.InGroup(authn.GroupMasters) {
		return true, "", nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	return r.granted[a.User.Name+" "+a.Verb+" "+a.Resource+"/"+a.Subresource], "", nil
}

func start(t testing.TB, change ...func(*server.Config)) *cluster {
	t.Helper()
	return startWith(t, func(*cluster, *apiserver.Config) {}, change...)
}

// startWith is start with changes of the API server, too.
func startWith(t testing.TB, api func(*cluster, *apiserver.Config), change ...func(*server.Config)) *cluster {
	t.Helper()
	c := &cluster{dir: t.TempDir(), rights: &rights{granted: map[string]bool{}}}
	now := time.Now()
	var err error
	if c.ca, err = pki.NewAuthority("kubelets", now); err != nil {
		t.Fatal(err)
	}
	c.issue(t, "kubelet", c.ca, pki.Subject{CommonName: "system:node:" + nodeName, Organizations: []string{"system:nodes"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true})
	c.issue(t, "client", c.ca, pki.Subject{CommonName: "kube-apiserver-kubelet-client", Organizations: []string{"system:masters"}, Client: true})
	c.write(t, "ca.crt", c.ca.CertPEM())
	c.write(t, "tokens", []byte("secret-of-tom,tom,7,\"viewers\"\n"))
	var clientCA string
	c.Server = apiservertest.Start(t, func(config *apiserver.Config) {
		clientCA = config.ClientCAFile
		config.Authorizer = c.rights
		config.Authentication.TokenFile = c.file("tokens")
		config.Connections = connect.Config{AllowLoopback: true, Kubelets: connect.Kubelets{
			CertFile: c.file("client.crt"), KeyFile: c.file("client.key"), CAFile: c.file("ca.crt"), PreferredAddressTypes: []string{"InternalIP"},
		}}
		api(c, config)
	})
	c.client = c.Clientset()
	theirs, err := os.ReadFile(clientCA)
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, "clients.crt", append(c.ca.CertPEM(), theirs...))

	c.node = newNode(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.url, c.port = "https://"+listener.Addr().String(), listener.Addr().(*net.TCPAddr).Port
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	pair, err := pki.NewKeyPair(c.file("kubelet.crt"), c.file("kubelet.key"), log)
	if err != nil {
		t.Fatal(err)
	}
	bundle, err := pki.NewBundle(c.file("clients.crt"), log)
	if err != nil {
		t.Fatal(err)
	}
	c.config = server.Config{
		Listener: listener, NodeName: nodeName, Certificate: pair.GetCertificate, ClientCA: bundle, Client: c.client,
		Node: c.node, Runtime: runtime{c.node}, Streams: c.node, Logger: log, LogDir: c.dir,
	}
	for _, f := range change {
		f(&c.config)
	}
	if c.kubelet, err = server.New(c.config); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.kubelet.Run(ctx) }()
	c.stop = sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := c.stop(); err != nil {
			t.Error(err)
		}
	})
	c.prepare(t)
	return c
}

// prepare makes the objects that tests use.
func (c *cluster) prepare(t testing.TB) {
	t.Helper()
	core := c.client.CoreV1()
	if _, err := core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := core.Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(c.port)}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.pod(t, "web", "main")
}

// address is this machine's: no endpoint may have a loopback address. "" when it has no other.
func address() string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return ""
}

// pod makes a pod at 127.0.0.1 that runs on the node, with containers of these names.
func (c *cluster) pod(t testing.TB, name string, containers ...string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{NodeName: nodeName}}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c, Image: "demo", TTY: c == "tty"})
	}
	pods := c.client.CoreV1().Pods("default")
	pod, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "127.0.0.1", PodIPs: []corev1.PodIP{{IP: "127.0.0.1"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	for _, c := range containers {
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c, ContainerID: "fake://" + name + "-" + c, Image: "demo", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	if pod, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.node.add(pod)
	return pod
}

func (c *cluster) file(name string) string { return filepath.Join(c.dir, name) }

func (c *cluster) write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := pki.WriteFile(c.file(name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue writes name.crt and name.key.
func (c *cluster) issue(t testing.TB, name string, by *pki.Pair, subject pki.Subject) {
	t.Helper()
	pair, err := by.Issue(subject, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := pair.KeyPEM()
	if err != nil {
		t.Fatal(err)
	}
	c.write(t, name+".key", key)
	c.write(t, name+".crt", pair.CertPEM())
}

// direct returns a client of the kubelet that is configured like one of the API server.
func (c *cluster) direct(t testing.TB, config *rest.Config) *http.Client {
	t.Helper()
	conf, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	conf = conf.Clone()
	conf.RootCAs, conf.ServerName = nil, ""
	conf.InsecureSkipVerify = true
	transport := &http.Transport{TLSClientConfig: conf}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func body(t testing.TB, r *http.Response, err error) (int, string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(data)
}

// node is a kubelet and a runtime with containers that do what the name of a command says. Its sessions are served as containerd does.
type node struct {
	streams streaming.Server
	logs    string

	mu   sync.Mutex
	pods map[string]*corev1.Pod
}

func newNode(t testing.TB) *node {
	n := &node{pods: map[string]*corev1.Pod{}, logs: t.TempDir()}
	config := streaming.DefaultConfig
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.streams.ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	config.BaseURL, _ = url.Parse(front.URL + "/")
	var err error
	if n.streams, err = streaming.NewServer(config, backend{}); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) add(pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[pod.Namespace+"/"+pod.Name] = pod
}

// change replaces the status of a container.
func (n *node) change(name, container string, change func(*corev1.ContainerStatus)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	pod := n.pods["default/"+name].DeepCopy()
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == container {
			change(&pod.Status.ContainerStatuses[i])
		}
	}
	n.pods["default/"+name] = pod
}

func (n *node) Pods() []*corev1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []*corev1.Pod
	for _, pod := range n.pods {
		out = append(out, pod)
	}
	return out
}

func (n *node) logFile(id string) string { return filepath.Join(n.logs, id, "0.log") }

// append writes to the log of a container.
func (n *node) append(t testing.TB, id, text string) {
	t.Helper()
	path := n.logFile(id)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	if err == nil {
		_, err = f.WriteString(text)
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Pod implements server.Node.
func (n *node) Pod(namespace, name string) *corev1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.pods[namespace+"/"+name]
}

// runtime is what the node's containers are to the kubelet.
type runtime struct{ *node }

// Exec implements server.Runtime.
func (runtime) Exec(_ context.Context, id string, command []string, _ time.Duration, _ int) ([]byte, int, error) {
	return []byte(id + " ran " + strings.Join(command, ",")), 0, nil
}

// Pod implements server.Runtime.
func (n runtime) Pod(_ context.Context, uid types.UID) (*kubelet.Sandbox, []*kubelet.Container, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, pod := range n.pods {
		if pod.UID != uid {
			continue
		}
		var containers []*kubelet.Container
		for _, s := range pod.Status.ContainerStatuses {
			id := strings.TrimPrefix(s.ContainerID, "fake://")
			state := kubelet.ContainerExited
			if s.State.Running != nil {
				state = kubelet.ContainerRunning
			}
			containers = append(containers, &kubelet.Container{ID: s.ContainerID, Name: s.Name, Image: s.Image, State: state, LogPath: n.logFile(id)})
			if last := s.LastTerminationState.Terminated; last != nil {
				id := strings.TrimPrefix(last.ContainerID, "fake://")
				containers = append(containers, &kubelet.Container{ID: last.ContainerID, Name: s.Name, State: kubelet.ContainerExited, LogPath: n.logFile(id)})
			}
		}
		return &kubelet.Sandbox{ID: "fake://" + pod.Name, Ready: true}, containers, nil
	}
	return nil, nil, nil
}

// Pods implements server.Runtime.
func (n runtime) Pods(context.Context) ([]kubelet.PodReference, error) {
	var out []kubelet.PodReference
	for _, pod := range n.node.Pods() {
		out = append(out, kubelet.PodReference{UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name})
	}
	return out, nil
}

func (n *node) ExecURL(_ context.Context, id string, o *corev1.PodExecOptions) (*url.URL, error) {
	answer, err := n.streams.GetExec(&runtimeapi.ExecRequest{ContainerId: id, Cmd: o.Command, Tty: o.TTY, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr})
	if err != nil {
		return nil, err
	}
	return url.Parse(answer.Url)
}

func (n *node) AttachURL(_ context.Context, id string, o *corev1.PodAttachOptions) (*url.URL, error) {
	answer, err := n.streams.GetAttach(&runtimeapi.AttachRequest{ContainerId: id, Tty: o.TTY, Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr})
	if err != nil {
		return nil, err
	}
	return url.Parse(answer.Url)
}

func (n *node) PortForwardURL(_ context.Context, uid types.UID, ports []int32) (*url.URL, error) {
	answer, err := n.streams.GetPortForward(&runtimeapi.PortForwardRequest{PodSandboxId: string(uid), Port: ports})
	if err != nil {
		return nil, err
	}
	return url.Parse(answer.Url)
}

// backend is what the node's containers are to the streaming server.
type backend struct{}

// Exec does what the first word of a command says: it implements streaming.Runtime.
func (backend) Exec(_ context.Context, id string, cmd []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	switch cmd[0] {
	case "cat":
		_, err := io.Copy(out, in)
		return err
	case "echo":
		fmt.Fprintf(out, "%s: %s\n", id, strings.Join(cmd[1:], " "))
	case "both":
		fmt.Fprint(out, "to stdout")
		fmt.Fprint(errOut, "to stderr")
	case "exit":
		code, err := strconv.Atoi(cmd[1])
		if err != nil {
			return err
		}
		return exec.CodeExitError{Err: fmt.Errorf("exit %d", code), Code: code}
	case "size":
		size := <-resize
		fmt.Fprintf(out, "%t %dx%d", tty, size.Width, size.Height)
	case "block":
		_, err := in.Read(make([]byte, 1))
		return err
	default:
		return fmt.Errorf("exec: %q: executable file not found in $PATH", cmd[0])
	}
	return nil
}

// Attach implements streaming.Runtime.
func (backend) Attach(_ context.Context, id string, in io.Reader, out, _ io.WriteCloser, tty bool, _ <-chan remotecommand.TerminalSize) error {
	fmt.Fprintf(out, "attached to %s, tty %t: ", id, tty)
	_, err := io.Copy(out, in)
	return err
}

// PortForward implements streaming.Runtime: ports of the pod are this machine's.
func (backend) PortForward(ctx context.Context, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, stream) // its end is what matters
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}
