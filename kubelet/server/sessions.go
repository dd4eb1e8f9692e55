package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	apiproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"vigil/internal/connectionlog"
	"vigil/kubelet"
)

// streams are the parameters of an exec or attach: which streams the client opens. The error is for a 400.
func streams(query url.Values) (proxy.Options, error) {
	wants := func(name string) bool { return query.Get(name) == "1" }
	opts := proxy.Options{
		Stdin: wants(corev1.ExecStdinParam), Stdout: wants(corev1.ExecStdoutParam), Stderr: wants(corev1.ExecStderrParam), Tty: wants(corev1.ExecTTYParam),
	}
	if opts.Tty { // a terminal has one output
		opts.Stderr = false
	}
	if !opts.Stdin && !opts.Stdout && !opts.Stderr {
		return opts, errors.New("you must specify at least 1 of stdin, stdout, stderr")
	}
	return opts, nil
}

// exec runs a command in a container.
func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	s.container(w, r, func(ctx context.Context, _ *corev1.Pod, id string, opts *proxy.Options) (*url.URL, error) {
		return s.config.Streams.ExecURL(ctx, id, &corev1.PodExecOptions{
			Command: r.URL.Query()[corev1.ExecCommandParam], TTY: opts.Tty, Stdin: opts.Stdin, Stdout: opts.Stdout, Stderr: opts.Stderr,
		})
	}, func(name, _ string) error { return fmt.Errorf("container not found (%q)", name) })
}

// attach connects to the main process of a container, which has a terminal if its spec says so, whatever the client says.
func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	s.container(w, r, func(ctx context.Context, pod *corev1.Pod, id string, opts *proxy.Options) (*url.URL, error) {
		tty := hasTTY(pod, r.PathValue("container"))
		return s.config.Streams.AttachURL(ctx, id, &corev1.PodAttachOptions{
			TTY: tty, Stdin: opts.Stdin, Stdout: opts.Stdout, Stderr: opts.Stderr && !tty,
		})
	}, func(name, pod string) error { return fmt.Errorf("container %s not found in pod %s", name, pod) })
}

// container serves a session with a container that runs.
func (s *Server) container(w http.ResponseWriter, r *http.Request,
	open func(ctx context.Context, pod *corev1.Pod, id string, opts *proxy.Options) (*url.URL, error),
	missing func(name, pod string) error,
) {
	opts, err := streams(r.URL.Query())
	if err != nil {
		refuse(w, err.Error(), http.StatusBadRequest)
		return
	}
	pod := s.named(w, r)
	if pod == nil {
		return
	}
	name := r.PathValue("container")
	running, err := s.running(r.Context(), pod.UID, name)
	if err == nil && running == nil {
		err = missing(name, pod.Name+"_"+pod.Namespace)
	}
	var location *url.URL
	if err == nil {
		location, err = open(r.Context(), pod, running.ID, &opts)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		s.session(w, r, proxy.NewStreamTranslatorHandler(location, nil, 0, opts))
		return
	}
	s.session(w, r, s.upgrade(location))
}

// portForward connects to ports of a pod.
func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	tunnel := wsstream.IsWebSocketRequestWithTunnelingProtocol(r)
	var ports []int32
	if wsstream.IsWebSocketRequest(r) && !tunnel {
		var err error
		if ports, err = forwardedPorts(r.URL.Query()); err != nil {
			refuse(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	pod := s.named(w, r)
	if pod == nil {
		return
	}
	sandbox, _, err := s.config.Runtime.Pod(r.Context(), pod.UID)
	if err == nil && (sandbox == nil || !sandbox.Ready) {
		err = fmt.Errorf("pod not found (%q)", pod.Name+"_"+pod.Namespace)
	}
	var location *url.URL
	if err == nil {
		location, err = s.config.Streams.PortForwardURL(r.Context(), pod.UID, ports)
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	handler := s.upgrade(location)
	if tunnel {
		handler = proxy.NewTunnelingHandler(handler)
	}
	s.session(w, r, handler)
}

// forwardedPorts are those that a client of the old WebSocket protocol must name beforehand. The error is for a 400.
func forwardedPorts(query url.Values) ([]int32, error) {
	texts := query[corev1.PortHeader]
	if len(texts) == 0 {
		return nil, fmt.Errorf("query parameter %q is required", corev1.PortHeader)
	}
	var ports []int32
	for _, text := range texts {
		for one := range strings.SplitSeq(text, ",") {
			port, err := strconv.ParseUint(one, 10, 16)
			if err != nil {
				return nil, fmt.Errorf("unable to parse %q as a port: %w", one, err)
			}
			if port < 1 {
				return nil, fmt.Errorf("port %q must be > 0", one)
			}
			ports = append(ports, int32(port))
		}
	}
	return ports, nil
}

// run runs a command and answers with what it printed.
func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	pod := s.named(w, r)
	if pod == nil {
		return
	}
	name := r.PathValue("container")
	running, err := s.running(r.Context(), pod.UID, name)
	if err == nil && running == nil {
		err = fmt.Errorf("container not found (%q)", name)
	}
	if err != nil {
		refuse(w, err.Error(), http.StatusInternalServerError)
		return
	}
	output, code, err := s.config.Runtime.Exec(r.Context(), running.ID, strings.Split(r.URL.Query().Get("cmd"), " "), 0, 0)
	if err == nil && code != 0 {
		err = fmt.Errorf("command '%s' exited with %d: %s", r.URL.Query().Get("cmd"), code, output)
	}
	if err != nil {
		refuse(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, output)
}

// named is the pod of the path, nil when it has been answered that there is none.
func (s *Server) named(w http.ResponseWriter, r *http.Request) *corev1.Pod {
	pod := s.config.Node.Pod(r.PathValue("namespace"), r.PathValue("pod"))
	uid := types.UID(r.PathValue("uid"))
	switch {
	case pod == nil:
		refuse(w, "pod does not exist", http.StatusNotFound)
	case uid != "" && pod.UID != uid:
		refuse(w, "pod not found", http.StatusNotFound)
	case s.config.Streams == nil && !strings.HasPrefix(r.URL.Path, "/run/"):
		refuse(w, "this node's runtime has no sessions", http.StatusNotImplemented)
	default:
		return pod
	}
	return nil
}

// running is the container of a name if it runs, nil if it does not.
func (s *Server) running(ctx context.Context, pod types.UID, name string) (*kubelet.Container, error) {
	_, containers, err := s.config.Runtime.Pod(ctx, pod)
	if err != nil {
		return nil, err
	}
	for _, c := range containers {
		if c.Name == name && c.State == kubelet.ContainerRunning {
			return c, nil
		}
	}
	return nil, nil //nolint:nilnil // as said
}

func hasTTY(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == name {
			return pod.Spec.InitContainers[i].TTY
		}
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return pod.Spec.Containers[i].TTY
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == name {
			return pod.Spec.EphemeralContainers[i].TTY
		}
	}
	return false
}

// fail answers with what the runtime said, under the status that its code stands for.
func (s *Server) fail(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch status.Code(err) {
	case codes.NotFound:
		code = http.StatusNotFound
	case codes.InvalidArgument:
		code = http.StatusBadRequest
	case codes.ResourceExhausted:
		w.Header().Set("Retry-After", "10") // as upstream has it: too many sessions wait for their clients
		code = http.StatusTooManyRequests
	}
	refuse(w, err.Error(), code)
}

// upgrade connects an upgraded request with location.
func (s *Server) upgrade(location *url.URL) http.Handler {
	return apiproxy.NewUpgradeAwareHandler(location, nil, false, true, s)
}

// Error implements apiproxy.ErrorResponder.
func (s *Server) Error(w http.ResponseWriter, _ *http.Request, err error) {
	s.log.Debug("a session with a container failed; its client was told", "error", err)
	refuse(w, err.Error(), http.StatusInternalServerError)
}

// session serves what may take over its connection, and cuts it off at the end of the server.
func (s *Server) session(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	h := &hijacker{ResponseWriter: w, sessions: &s.sessions}
	defer h.done()
	handler.ServeHTTP(h, r.WithContext(connectionlog.Context(r.Context(), s.log)))
}

// sessions are the connections that sessions have taken over.
type sessions struct {
	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	closed bool
}

func (s *sessions) add(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = c.Close()
		return
	}
	if s.conns == nil {
		s.conns = map[net.Conn]struct{}{}
	}
	s.conns[c] = struct{}{}
}

func (s *sessions) remove(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// close ends all sessions, and those to come.
func (s *sessions) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for c := range s.conns {
		_ = c.Close() // nobody needs it any more
	}
}

// hijacker notes the connection that is taken over.
type hijacker struct {
	http.ResponseWriter
	sessions *sessions
	conn     net.Conn
}

// Hijack implements http.Hijacker.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err == nil {
		h.conn = conn
		h.sessions.add(conn)
	}
	return conn, buffered, err
}

// Unwrap is what http.ResponseController looks for.
func (h *hijacker) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h *hijacker) done() {
	if h.conn != nil {
		h.sessions.remove(h.conn)
	}
}
