package apiserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/admission/plugins"
	"vigil/apiserver/authz"
	"vigil/apiserver/budget"
	"vigil/apiserver/satoken"
	"vigil/apiserver/write"
	"vigil/kinds"
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
	// ClientCAFile holds the CAs that sign client certificates, PEM. Without it nobody can authenticate.
	ClientCAFile string

	Store *store.Store
	Kinds *kinds.Table
	// WriteHooks are what writes of single resources do outside of the object (service addresses).
	WriteHooks map[schema.GroupResource]write.Hook
	// Tokens says how service account tokens are issued and checked; its Objects are the server's.
	Tokens satoken.Config
	// Authorizer decides; by default authz.Components.
	Authorizer authz.Authorizer
	// Admission says which plug-ins have a say about writes; the rest of it is the server's.
	Admission plugins.Config
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
	// Lists bounds what lists under way hold between snapshot and socket, for all clients and for each user. More wait.
	Lists budget.Config
	// GoawayChance is the probability with which a request over HTTP/2 has its connection drained, so that clients spread over several
	// servers again. Default 0.
	GoawayChance float64
	// RequestTimeout bounds requests that are not watches. Default 60 s.
	RequestTimeout time.Duration
	// MinRequestTimeout bounds watches, see read.Config. Default 30 minutes.
	MinRequestTimeout time.Duration
	// BookmarkEvery is the time between two bookmarks of a watch. Default 1 minute.
	BookmarkEvery time.Duration
	// WatchCompression lets watches be compressed for clients that accept it. Each event is compressed once, for all of them.
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
	}
	if c.Authorizer == nil {
		c.Authorizer = authz.Components{}
	}
	if c.MaxRequestsInflight == 0 {
		c.MaxRequestsInflight = 400
	}
	if c.MaxMutatingRequestsInflight == 0 {
		c.MaxMutatingRequestsInflight = 200
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

// cipherSuites for TLS 1.2: forward secrecy and authenticated encryption only. TLS 1.3 chooses its own.
var cipherSuites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// loadTLS reads the serving certificate and the client CAs.
func loadTLS(c *Config) (*tls.Config, *x509.CertPool, error) {
	cert, err := tls.LoadX509KeyPair(c.TLSCertFile, c.TLSKeyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("load serving certificate %s: %w", c.TLSCertFile, err)
	}
	conf := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		CipherSuites: cipherSuites,
		NextProtos:   []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{cert},
		// Asked for, and checked by package authn: a bad certificate is answered with 401.
		ClientAuth: tls.RequestClientCert,
	}
	if c.ClientCAFile == "" {
		return conf, nil, nil
	}
	pem, err := os.ReadFile(c.ClientCAFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read client CA: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, nil, fmt.Errorf("client CA %s: no certificate in it", c.ClientCAFile)
	}
	conf.ClientCAs = roots // names the CAs to clients that have several certificates
	return conf, roots, nil
}
