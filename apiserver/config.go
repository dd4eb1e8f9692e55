package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/admission/plugins"
	"vigil/apiserver/audit"
	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/connect"
	"vigil/apiserver/health"
	"vigil/apiserver/listmemory"
	"vigil/apiserver/serviceaccount"
	"vigil/apiserver/write"
	"vigil/kinds"
	"vigil/pki"
	"vigil/store"
	"vigil/watchcache"
)

// Config says what a server serves and how. Store, Kinds, a listener or an address, and the serving certificate are
// needed; the rest has defaults.
type Config struct {
	// Listener is served and closed by Run. When nil, Run listens on Addr ("127.0.0.1:6443"). It is a plain TCP listener:
	// the server does TLS itself.
	Listener net.Listener
	Addr     string

	// TLSCertFile and TLSKeyFile hold the serving certificate with its chain, PEM.
	TLSCertFile, TLSKeyFile string
	// TLSMinVersion is the least version of TLS, default 1.2 (--tls-min-version). TLSCipherSuites are those of TLS 1.2, by
	// default the ones with forward secrecy and authenticated encryption (--tls-cipher-suites); TLS 1.3 chooses its own.
	TLSMinVersion   uint16
	TLSCipherSuites []uint16
	// TLSCurves are the key exchanges that clients may choose from, by default Go's (--tls-curve-preferences). TLSNamed are certificates for
	// clients that ask for certain names (--tls-sni-cert-key).
	TLSCurves []tls.CurveID
	TLSNamed  []pki.NamedPair
	// NoHTTP2 speaks HTTP/1.1 only (--disable-http2-serving). MaxStreams is how many requests and watches a client may have under way on one
	// connection over HTTP/2 (--http2-max-streams-per-connection), default 1000.
	NoHTTP2    bool
	MaxStreams int
	// NoProfiling leaves out /debug/pprof/ (--profiling=false).
	NoProfiling bool
	// ClientCAFile holds the CAs that sign client certificates, PEM. All these files are read again when they change.
	ClientCAFile string
	// Authentication says what else callers may show.
	Authentication Authentication

	Store *store.Store
	// Kinds is what is served at the start.
	Kinds *kinds.Table
	// Answers make the objects of kinds that are not stored and can be read all the same, on each request.
	Answers map[schema.GroupVersionKind]Answer
	// WriteHooks are what writes of single resources do outside of the object (service addresses).
	WriteHooks map[schema.GroupResource]write.Hook
	// Tokens says how service account tokens are issued and checked; its Objects are the server's.
	Tokens serviceaccount.Config
	// Authorizer decides what callers may do; there is no default.
	Authorizer authz.Authorizer
	// Auditor writes down who did what; nil does not.
	Auditor *audit.Auditor
	// Admission says which plug-ins have a say about writes; the rest of it is the server's.
	Admission plugins.Config
	// Connections says how kubelets and pods are reached; its Objects and Logger are the server's.
	Connections connect.Config
	// Checks are further conditions that /healthz, /livez and /readyz show.
	Checks []health.Check
	// StartHooks run once the caches are loaded, each in its own goroutine. The server is not ready before they are done.
	StartHooks []StartHook

	// Window bounds the history of each watch cache.
	Window watchcache.Window
	// WatchCacheSizes are the least numbers of events kept, by resource as "pods" or "deployments.apps"
	// (--watch-cache-sizes).
	WatchCacheSizes map[string]int

	// MaxRequestsInflight and MaxMutatingRequestsInflight bound the requests under way that read and that write, watches
	// left out; more are refused with 429. Default 400 and 200; negative means no limit.
	MaxRequestsInflight, MaxMutatingRequestsInflight int
	// Fairness shares these places out by priority and fairness (package flowcontrol): requests wait in fair queues, and only what finds
	// no room there is refused.
	Fairness bool
	// Lists bounds what lists under way hold between snapshot and socket, for all clients and for each user. More wait.
	Lists listmemory.Config
	// GoawayChance is the probability with which a request over HTTP/2 has its connection drained, so that clients spread over several
	// servers again. Default 0.
	GoawayChance float64
	// RequestTimeout bounds requests that are not watches. Default 60 s.
	RequestTimeout time.Duration
	// MinRequestTimeout bounds watches, see read.Config. Default 30 minutes.
	MinRequestTimeout time.Duration
	// BookmarkEvery is the time between two bookmarks of a watch. Default 1 minute.
	BookmarkEvery time.Duration
	// WatchLastChance is how long a watch's client that has lost events because it does not read has to read on, see read.Config. Default 10 s.
	WatchLastChance time.Duration
	// WatchCompression compresses every watch of a client that accepts it. Without it only those are that begin with sendInitialEvents=true, as upstream
	// does. Each event is compressed once, for all watches.
	WatchCompression bool
	// ShutdownDelay is how long the server goes on serving after it has said at /readyz that it stops, so that load
	// balancers notice. Default 0.
	ShutdownDelay time.Duration
	// ShutdownTimeout bounds how long Run waits for requests under way after that. Default 10 s.
	ShutdownTimeout time.Duration

	// Version is Vigil's own version, shown behind the Kubernetes version: "0.1.0".
	Version string
	// GitCommit is the commit this was built from, or empty.
	GitCommit string

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // where metrics are registered; nil makes a registry of the server's own
	Gatherer   prometheus.Gatherer   // what /metrics shows; by default Registerer if it is one
}

// StartHook is work at the start of a server, shown in the health checks as poststarthook/NAME.
type StartHook struct {
	Name string
	// Run is called with the running server. It is called again after a second when it fails.
	Run func(ctx context.Context, s *Server) error
}

func (c Config) withDefaults() (Config, error) {
	switch {
	case c.Store == nil:
		return c, errors.New("api server: no store")
	case c.Kinds == nil:
		return c, errors.New("api server: no kinds")
	case c.Authorizer == nil:
		return c, errors.New("api server: no authorizer")
	}
	if c.TLSMinVersion == 0 {
		c.TLSMinVersion = tls.VersionTLS12
	}
	if len(c.TLSCipherSuites) == 0 {
		c.TLSCipherSuites = pki.CipherSuites()
	}
	if c.MaxRequestsInflight == 0 {
		c.MaxRequestsInflight = 400
	}
	if c.MaxMutatingRequestsInflight == 0 {
		c.MaxMutatingRequestsInflight = 200
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = 1000 // one client may run that many watches at once on its connection
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = time.Minute
	}
	if c.ShutdownTimeout == 0 {
		c.ShutdownTimeout = 10 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Registerer == nil {
		c.Registerer = prometheus.NewRegistry()
	}
	if c.Gatherer == nil {
		if g, ok := c.Registerer.(prometheus.Gatherer); ok {
			c.Gatherer = g
		} else {
			c.Gatherer = prometheus.DefaultGatherer
		}
	}
	if c.Version == "" {
		c.Version = "0.1.0"
	}
	return c, nil
}

// loadTLS reads the serving certificate. A new one in its files serves new connections; so do new client CAs.
func loadTLS(c *Config, chain *authn.Chain) (*tls.Config, error) {
	pair, err := pki.NewKeyPair(c.TLSCertFile, c.TLSKeyFile, c.Logger)
	if err != nil {
		return nil, err
	}
	certificates, err := pki.NewCertificates(pair, c.TLSNamed, c.Logger)
	if err != nil {
		return nil, fmt.Errorf("--tls-sni-cert-key: %w", err)
	}
	conf := &tls.Config{
		MinVersion:       c.TLSMinVersion,
		CipherSuites:     c.TLSCipherSuites,
		CurvePreferences: c.TLSCurves,
		NextProtos:       []string{"h2", "http/1.1"},
		GetCertificate:   certificates.GetCertificate,
		// Asked for, and checked by package authn: a bad certificate is answered with 401.
		ClientAuth: tls.RequestClientCert,
		// They tell clients that have several certificates which to show.
		ClientCAs: chain.ClientCAs(),
	}
	if c.NoHTTP2 {
		conf.NextProtos = []string{"http/1.1"}
	}
	var renewed atomic.Pointer[tls.Config] // with other client CAs
	conf.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		cas := chain.ClientCAs()
		if cas == conf.ClientCAs {
			return nil, nil //nolint:nilnil // which is how a tls.Config is told to go on
		}
		now := renewed.Load()
		if now == nil || now.ClientCAs != cas {
			now = conf.Clone()
			now.GetConfigForClient, now.ClientCAs = nil, cas
			renewed.Store(now)
		}
		return now, nil
	}
	return conf, nil
}
