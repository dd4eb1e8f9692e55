package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"vigil/apiserver/admission"
	"vigil/apiserver/audit"
	"vigil/apiserver/authn"
	"vigil/apiserver/authn/external"
	"vigil/apiserver/authz"
	"vigil/apiserver/connect"
	"vigil/apiserver/flowcontrol"
	"vigil/apiserver/health"
	"vigil/apiserver/listmemory"
	"vigil/apiserver/metrics"
	"vigil/apiserver/read"
	"vigil/apiserver/serviceaccount"
	"vigil/apiserver/write"
	"vigil/h2"
	"vigil/internal/panics"
	"vigil/kinds"
	"vigil/object"
	"vigil/store"
	"vigil/watchcache"
)

// Server is one API server.
type Server struct {
	config         Config
	log            *slog.Logger
	store          *store.Store
	prefix         string // of all keys, with a slash at the end
	tls            *tls.Config
	authn          *authn.Chain
	anonymous      authn.AnonymousRule
	attempts       *metrics.Authentication
	external       *external.Tokens // nil: nobody else is asked about tokens
	unknownTokens  *rate.Limiter    // of reads of etcd for bootstrap tokens that the cache does not have
	tokens         *serviceaccount.Tokens
	authz          authz.Authorizer
	auditor        *audit.Auditor // nil: nothing is written down
	caches         *watchcache.Server
	served         atomic.Pointer[served]
	changing       chan struct{} // holds one: somebody changes served
	reader         *read.Reader
	writer         *write.Writer
	admission      *admission.Chain
	connector      *connect.Connector
	paths          *paths
	version        version.Info // what /version answers
	metrics        *metrics.Metrics
	other          *metrics.Resource // of non-resource paths
	reads, writes  inflight
	bodies         bodies
	fairness       *flowcontrol.Controller // nil: reads and writes alone bound what is under way
	compressor     *object.Compressor      // of lists
	h2             *h2.Server
	identities     *identities
	newcomers      *newcomers
	lists          *listmemory.Budget // of what lists under way hold
	kept           atomic.Int64       // bytes of answers that wait for their requests to give their seats back: see recorder.keep
	answers        map[schema.GroupVersionKind]Answer
	requestTimeout time.Duration

	draining chan struct{} // closed when watches are to end
	stopping atomic.Bool   // set before everything else at the end, shown by /readyz
	serving  chan struct{} // closed when Run listens
	addr     net.Addr      // set before serving is closed
	started  []*startState // of the StartHooks
}

// New prepares a server; nothing runs before Run.
func New(config Config) (*Server, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Server{
		config:         config,
		log:            config.Logger,
		store:          config.Store,
		prefix:         config.Store.Prefix(),
		authz:          config.Authorizer,
		auditor:        config.Auditor,
		metrics:        metrics.New(config.Registerer),
		requestTimeout: config.RequestTimeout,
		version:        versionInfo(config.Version, config.GitCommit),
		changing:       make(chan struct{}, 1),
		draining:       make(chan struct{}),
		serving:        make(chan struct{}),
		compressor:     object.NewCompressor(0),
		lists:          listmemory.New(config.Lists),
		answers:        config.Answers,
		identities:     newIdentities(),
		newcomers:      newNewcomers(),
	}
	s.other = s.metrics.Resource("", "", "", "")
	metrics.RegisterCompressed(config.Registerer, s.compressor.SizeBytes)
	config.Registerer.MustRegister(s.identities)
	metrics.RegisterBudget(config.Registerer, s.lists.Stats)
	s.reads = inflight{limit: int64(config.MaxRequestsInflight), gauge: s.metrics.ReadInflight}
	s.writes = inflight{limit: int64(config.MaxMutatingRequestsInflight), gauge: s.metrics.MutatingInflight}

	s.h2 = s.newHTTP2()
	metrics.RegisterHTTP2(config.Registerer, s.h2.Stats)

	s.caches = watchcache.NewServer(s.store, watchcache.Config{Logger: s.log, Registerer: config.Registerer, Window: config.Window})
	if err := s.makeTokens(); err != nil {
		return nil, fmt.Errorf("api server: %w", err)
	}
	if err := s.makeAuthentication(); err != nil {
		return nil, fmt.Errorf("api server: %w", err)
	}
	if s.tls, err = loadTLS(&config, s.authn); err != nil {
		return nil, fmt.Errorf("api server: %w", err)
	}
	for resource := range config.WatchCacheSizes {
		if !slices.ContainsFunc(config.Kinds.All(), func(k *kinds.Kind) bool { return k.GroupResource().String() == resource }) {
			s.log.Warn("--watch-cache-sizes names a resource that the API server does not serve; it has no effect", "resource", resource)
		}
	}
	s.reader = read.New(read.Config{
		MinRequestTimeout: config.MinRequestTimeout,
		BookmarkEvery:     config.BookmarkEvery,
		LastChance:        config.WatchLastChance,
		Compress:          config.WatchCompression,
		Draining:          s.draining,
		Logger:            s.log,
	})
	if s.admission, err = s.makeAdmission(); err != nil {
		return nil, fmt.Errorf("api server: %w", err)
	}
	connection := config.Connections
	connection.Objects, connection.Logger = objects{s}, s.log
	if s.connector, err = connect.New(connection); err != nil {
		return nil, fmt.Errorf("api server: %w", err)
	}
	s.writer = write.New(write.Config{
		Logger:    s.log,
		Store:     s.store,
		Resource:  s.written,
		Prefix:    s.prefix,
		Hooks:     s.hooks(),
		Authorize: s.authorizeWrite,
	})
	s.served.Store(s.newServed(config.Kinds, s.makeCaches(config.Kinds.All()), nil))
	s.fairness = s.newFairness()
	if s.paths, err = newPaths(s); err != nil {
		return nil, fmt.Errorf("api server: %w", err)
	}
	return s, nil
}

// Caches returns the watch caches.
func (s *Server) Caches() *watchcache.Server { return s.caches }

// Connector reaches kubelets.
func (s *Server) Connector() *connect.Connector { return s.connector }

// Writer returns the writer, for what the server itself has to write.
func (s *Server) Writer() *write.Writer { return s.writer }

// WaitServing waits until the server listens and returns its address.
func (s *Server) WaitServing(ctx context.Context) (net.Addr, error) {
	select {
	case <-s.serving:
		return s.addr, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// WaitReady waits until the caches are loaded and all start hooks are done.
func (s *Server) WaitReady(ctx context.Context) error {
	if err := s.caches.WaitReady(ctx); err != nil {
		return err
	}
	for _, h := range s.started {
		select {
		case <-h.done:
		case <-ctx.Done():
			return fmt.Errorf("wait for start hook %s: %w", h.name, context.Cause(ctx))
		}
	}
	return nil
}

// authorizeWrite answers what only turns out during a write.
func (s *Server) authorizeWrite(ctx context.Context, a write.Access) error {
	attr := &authz.Attributes{
		User: a.User, Verb: a.Verb, Group: a.Resource.Group, Version: a.Resource.Version, Resource: a.Resource.Resource,
		Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name,
	}
	allowed, reason, err := s.authz.Authorize(ctx, attr)
	if err == nil && !allowed {
		err = authz.Forbidden(attr, reason)
	}
	return err
}

// Run serves until ctx ends or something breaks. At the end /readyz fails first; after ShutdownDelay watches end, new
// connections are refused, and requests under way have ShutdownTimeout to finish.
func (s *Server) Run(ctx context.Context) error {
	listener := s.config.Listener
	if listener == nil {
		var err error
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", s.config.Addr); err != nil {
			return fmt.Errorf("api server: %w", err)
		}
	}
	defer listener.Close()
	s.addr = listener.Addr()
	close(s.serving)

	srv, h2srv := s.httpServers()
	g, ctx := errgroup.WithContext(ctx)
	// The caches outlive the end of ctx: requests that are finishing still read from them.
	cacheCtx, stopCaches := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCaches()
	g.Go(func() error {
		err := s.caches.Run(cacheCtx)
		if cacheCtx.Err() != nil {
			return nil
		}
		return fmt.Errorf("api server: watch caches: %w", err)
	})
	g.Go(func() error {
		err := srv.ServeTLS(h2.NewListener(listener), "", "")
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("api server: %w", err)
	})
	g.Go(func() error { return s.reader.Run(cacheCtx) })
	g.Go(func() error { return s.lists.Run(cacheCtx) })
	if s.fairness != nil {
		g.Go(func() error { return s.fairness.Run(cacheCtx) })
	}
	g.Go(func() error { return s.auditor.Run(cacheCtx) })
	if s.external != nil {
		g.Go(func() error { return s.external.Run(ctx) })
	}
	for i, hook := range s.config.StartHooks {
		g.Go(func() error { return s.runHook(ctx, hook, s.started[i]) })
	}
	g.Go(func() error {
		<-ctx.Done()
		err := s.shutdown(context.WithoutCancel(ctx), srv, h2srv)
		stopCaches()
		return err
	})
	return g.Wait()
}

// httpServers returns the server of the port, which speaks HTTP/1.1 and hands HTTP/2 connections to the other.
func (s *Server) httpServers() (*http.Server, *h2.Server) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!s.config.NoHTTP2)
	srv := &http.Server{
		Handler:           s,
		TLSConfig:         s.tls,
		Protocols:         protocols,
		ReadHeaderTimeout: 32 * time.Second,
		IdleTimeout:       90 * time.Second,
		ConnState:         s.ended,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			ctx = s.ConnContext(ctx)
			c := s.connection(ctx)
			c.newcomer = s.newcomers.add(conn, time.Now())
			s.identities.add(conn, c)
			return ctx
		},
		ErrorLog: log.New(debugLog{s.log}, "", 0),
	}
	if !s.config.NoHTTP2 {
		s.h2.Configure(srv)
	}
	return srv, s.h2
}

// ended is an http.Server's ConnState: a connection that has ended, or is not HTTP's any more, is forgotten.
func (s *Server) ended(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		if c := s.identities.remove(conn); c != nil {
			s.newcomers.remove(c.newcomer)
		}
	}
}

func (s *Server) newHTTP2() *h2.Server {
	return &h2.Server{
		Handler:              s,
		MaxConcurrentStreams: uint32(s.config.MaxStreams),
		UploadPerStream:      256 << 10,
		UploadPerConn:        1 << 20,
		ReadTimeout:          s.requestTimeout,
		IdleTimeout:          90 * time.Second,
		// A peer that has vanished is noticed, and its watches freed.
		PingInterval: 30 * time.Second,
		PingTimeout:  15 * time.Second,
		Logger:       s.log,
	}
}

// shutdown ends what srv and h2srv serve: first the watches, which end by themselves.
func (s *Server) shutdown(ctx context.Context, srv *http.Server, h2srv *h2.Server) error {
	s.stopping.Store(true)
	if s.config.ShutdownDelay > 0 {
		time.Sleep(s.config.ShutdownDelay)
	}
	close(s.draining)
	ctx, cancel := context.WithTimeout(ctx, s.config.ShutdownTimeout)
	defer cancel()
	err := srv.Shutdown(ctx) // tells h2srv, too
	if err == nil {
		err = h2srv.Shutdown(ctx) // its handlers may outlive their connections
	}
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("the API server cut off requests that had not ended at its shutdown", "after", s.config.ShutdownTimeout)
		h2srv.Close()
		err = srv.Close()
	}
	if err != nil {
		return fmt.Errorf("api server: shut down: %w", err)
	}
	return nil
}

// debugLog is where net/http reports failed handshakes and broken connections: a client's doing, so not more than debug.
type debugLog struct{ log *slog.Logger }

func (d debugLog) Write(p []byte) (int, error) {
	d.log.Debug("the HTTP server met a broken connection or handshake", "message", string(p))
	return len(p), nil
}

// startState is how far a StartHook is.
type startState struct {
	name string
	done chan struct{}
}

func (h *startState) check(context.Context) error {
	select {
	case <-h.done:
		return nil
	default:
		return errors.New("not finished")
	}
}

// runHook runs a start hook once the caches are loaded, again and again until it succeeds.
func (s *Server) runHook(ctx context.Context, hook StartHook, state *startState) error {
	if err := s.caches.WaitReady(ctx); err != nil {
		return nil // ctx has ended
	}
	for {
		err := panics.Try(s.log, panics.StartHook, func() error { return hook.Run(ctx, s) }, "hook", hook.Name)
		if err == nil {
			close(state.done)
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		s.log.Warn("a start hook failed; it is tried again in a second, and /readyz fails until it succeeds", "hook", hook.Name, "error", err)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil
		}
	}
}

// etcdHealthEvery is how old what /healthz, /livez and /readyz say of etcd may be.
const etcdHealthEvery = 500 * time.Millisecond

// checks are the health checks of the three endpoints, in upstream's order.
func (s *Server) checks() (healthz, livez, readyz []health.Check) {
	ok := func(context.Context) error { return nil }
	etcd := health.Shared(s.log, etcdHealthEvery, 2*time.Second, s.store.Health)
	synced := func(context.Context) error {
		if !s.caches.Ready() {
			return errors.New("watch caches are not loaded")
		}
		return nil
	}
	stopping := func(context.Context) error {
		if s.stopping.Load() {
			return errors.New("process is shutting down")
		}
		return nil
	}
	base := []health.Check{{Name: "ping", Func: ok}, {Name: "log", Func: ok}, {Name: "etcd", Func: etcd}}
	base = append(base, s.config.Checks...)
	readyz = append(readyz, base...)
	readyz = append(readyz, health.Check{Name: "etcd-readiness", Func: etcd}, health.Check{Name: "informer-sync", Func: synced})
	healthz, livez = append(healthz, base...), append(livez, base...)
	healthz = append(healthz, health.Check{Name: "informer-sync", Func: synced})
	for _, hook := range s.config.StartHooks {
		state := &startState{name: hook.Name, done: make(chan struct{})}
		s.started = append(s.started, state)
		check := health.Check{Name: "poststarthook/" + hook.Name, Func: state.check}
		healthz, livez, readyz = append(healthz, check), append(livez, check), append(readyz, check)
	}
	readyz = append(readyz, health.Check{Name: "shutdown", Func: stopping})
	return healthz, livez, readyz
}
