package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/internal/panics"
	"vigil/internal/slis"
	"vigil/kubelet"
	"vigil/kubelet/internal/logfile"
	"vigil/pki"
)

// DefaultPort is the kubelet's.
const DefaultPort = 10250

// Node is what the server asks of the kubelet. Pods are shared: nobody changes one.
type Node interface {
	// Pods are the pods of this node, static ones included, each with the newest status the kubelet knows.
	Pods() []*corev1.Pod
	// Pod is one of them, nil when there is none of that name.
	Pod(namespace, name string) *corev1.Pod
}

// Runtime is what the server asks of the container runtime; kubelet.Runtime has it.
type Runtime interface {
	Pod(ctx context.Context, pod types.UID) (*kubelet.Sandbox, []*kubelet.Container, error)
	Pods(ctx context.Context) ([]kubelet.PodReference, error)
	Exec(ctx context.Context, id string, command []string, timeout time.Duration, limit int) (output []byte, exitCode int, err error)
}

// Streams gives out the URLs of sessions, which are good for one request each. kubelet/cri has it.
type Streams interface {
	// ExecURL is for a command in a container that runs. With TTY there is no Stderr.
	ExecURL(ctx context.Context, id string, options *corev1.PodExecOptions) (*url.URL, error)
	// AttachURL is for the main process of a container. TTY is that of its spec.
	AttachURL(ctx context.Context, id string, options *corev1.PodAttachOptions) (*url.URL, error)
	// PortForwardURL is for ports of a pod. With none given the client names them as it goes.
	PortForwardURL(ctx context.Context, pod types.UID, ports []int32) (*url.URL, error)
}

// Checkpointer is a runtime that can write the state of a container to a file.
type Checkpointer interface {
	// Checkpoint writes an archive to location. timeout in seconds, 0: the runtime's.
	Checkpoint(ctx context.Context, id, location string, timeout int64) error
}

// Config says what is served. NodeName, a certificate, ClientCA, Client, Node and Runtime are needed.
type Config struct {
	Address  string // --address; "": all addresses
	Port     int    // --port; 0: 10250
	Listener net.Listener
	NodeName string

	// Certificate is the serving certificate, asked for on each connection (pki.KeyPair.GetCertificate).
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	ClientCA    *pki.Bundle          // --client-ca-file
	Client      kubernetes.Interface // for TokenReviews and SubjectAccessReviews
	Anonymous   bool                 // --anonymous-auth
	NoTokens    bool                 // --authentication-token-webhook=false: only client certificates count
	AllowAll    bool                 // --authorization-mode=AlwaysAllow: who is known, or anonymous where that may be, may do anything

	MinVersion   uint16   // --tls-min-version; 0: TLS 1.2
	CipherSuites []uint16 // --tls-cipher-suites of TLS 1.2; nil: Go's

	Node    Node
	Runtime Runtime
	Streams Streams // nil: no sessions
	// Checkpoints, when the runtime can make them, are put into CheckpointDir.
	Checkpoints   Checkpointer
	CheckpointDir string

	// Handlers serve further paths, for who may do what their path says: "/stats/summary", "/metrics/resource", "/metrics/cadvisor".
	Handlers map[string]http.Handler
	// Metrics are what /metrics shows, but for those of probes (prober_*), which /metrics/probes shows. Nil: none.
	Metrics prometheus.Gatherer
	// SLIs count what the checks of /healthz find, for /metrics/slis. Nil: nobody does.
	SLIs *slis.Metrics
	// Registerer gets the server's own metrics. Nil: nobody does.
	Registerer prometheus.Registerer
	// Healthy are the checks of /healthz by name, beside ping and log: "syncloop".
	Healthy map[string]func(*http.Request) error
	// Configz is what /configz shows under the name kubeletconfig. Nil: an empty object.
	Configz func() any
	LogDir  string // /logs/ shows its files; "": /var/log

	Logger *slog.Logger // nil discards
}

// Server is made by New.
type Server struct {
	config   Config
	log      *slog.Logger
	who      *authenticator
	may      *authorizer
	handler  http.Handler
	metrics  *serverMetrics
	sessions sessions
	logs     logfile.Watcher
}

// New prepares a server; nothing runs before Run.
func New(config Config) (*Server, error) {
	switch {
	case config.Certificate == nil:
		return nil, errors.New("kubelet server: no serving certificate")
	case config.ClientCA == nil || config.Client == nil:
		return nil, errors.New("kubelet server: nobody to ask who callers are")
	case config.Node == nil || config.Runtime == nil:
		return nil, errors.New("kubelet server: no node")
	}
	if config.Port == 0 {
		config.Port = DefaultPort
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.LogDir == "" {
		config.LogDir = "/var/log"
	}
	s := &Server{
		config: config, log: config.Logger,
		who:     newAuthenticator(config.ClientCA, config.Client, config.Anonymous, config.NoTokens),
		may:     newAuthorizer(config.Client, config.NodeName, config.AllowAll),
		metrics: newServerMetrics(config.Registerer),
	}
	s.handler = s.routes()
	return s, nil
}

// endTimeout bounds how long Run waits for requests under way when it is to end.
const endTimeout = 2 * time.Second

// Run serves until ctx ends, then ends all sessions.
func (s *Server) Run(ctx context.Context) error {
	listener := s.config.Listener
	if listener == nil {
		address := net.JoinHostPort(s.config.Address, strconv.Itoa(s.config.Port))
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
			return fmt.Errorf("kubelet server: %w", err)
		}
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	server := &http.Server{
		Handler:           panics.Serve(s.log, panics.KubeletRequest, s),
		TLSConfig:         s.tls(),
		ReadHeaderTimeout: 32 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    1 << 20,
		BaseContext:       func(net.Listener) context.Context { return running },
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(listener, "", "") }()
	followed := make(chan error, 1)
	go func() { followed <- s.logs.Run(running) }()
	var err error
	select {
	case err = <-served:
	case <-ctx.Done():
		stop() // streams end
		s.sessions.close()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if server.Shutdown(end) != nil {
			_ = server.Close() // what is left had its time
		}
		err = <-served
	}
	stop()
	if followErr := <-followed; followErr != nil && (err == nil || errors.Is(err, http.ErrServerClosed)) {
		err = followErr
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("kubelet server: %w", err)
	}
	return nil
}

// tls asks clients for certificates; whether one is good, authentication says, so that a bad one is answered with 401.
func (s *Server) tls() *tls.Config {
	conf := &tls.Config{
		MinVersion:     cmp.Or(s.config.MinVersion, tls.VersionTLS12),
		CipherSuites:   s.config.CipherSuites,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: s.config.Certificate,
		ClientAuth:     tls.RequestClientCert,
	}
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := conf.Clone()
		now.GetConfigForClient, now.ClientCAs = nil, s.config.ClientCA.Pool()
		return now, nil
	}
	return conf
}
