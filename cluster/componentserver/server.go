package componentserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"vigil/apiserver/health"
	"vigil/apiserver/respond"
	"vigil/internal/panics"
	"vigil/internal/serving"
	"vigil/internal/slis"
	"vigil/pki"
)

// Config says what is served, where and to whom.
type Config struct {
	Name    string // of the component: "kube-scheduler"
	Bind    string // address to listen on; "" is 127.0.0.1
	Port    int    // 0 serves nothing
	Serving serving.Config
	Access  Access

	Gatherer prometheus.Gatherer // what /metrics shows
	// Checks are those of the three health endpoints, ReadyChecks further ones of /readyz.
	Checks, ReadyChecks []health.Check
	// Configz is what /configz shows, by name; nil: there is none.
	Configz map[string]any
	// NoProfiling leaves out /debug/pprof/ (--profiling=false). Contention has blocked goroutines profiled, too (--contention-profiling).
	NoProfiling, Contention bool

	Logger *slog.Logger
}

// Run serves until ctx ends.
func (c Config) Run(ctx context.Context) error {
	if c.Port == 0 {
		<-ctx.Done()
		return nil
	}
	if c.Bind == "" {
		c.Bind = "127.0.0.1"
	}
	who := c.selfSigned()
	secure, err := c.Serving.Ensure(c.Name, who)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	config, err := secure.TLS(who, c.Logger)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	door, err := c.Access.open(ctx, c.Logger)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	listener, err := secure.Listen(ctx, net.JoinHostPort(c.Bind, strconv.Itoa(c.Port)))
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	if c.Contention && !c.NoProfiling {
		runtime.SetBlockProfileRate(1)
	}
	server := &http.Server{
		Handler:           panics.Serve(c.Logger, panics.ComponentRequest, door.guard(c.routes())),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       90 * time.Second,
		ErrorLog:          slog.NewLogLogger(c.Logger.Handler(), slog.LevelDebug),
		TLSConfig:         config,
		HTTP2:             secure.HTTP2(),
		ConnContext:       withConnection,
	}
	if secure.NoHTTP2 {
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		server.Close()
	}()
	err = server.ServeTLS(listener, "", "")
	<-stopped
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// selfSigned is whom a certificate names that is made here.
func (c Config) selfSigned() pki.SelfSigned {
	who := pki.SelfSigned{CommonName: "localhost", DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
	if ip := net.ParseIP(c.Bind); ip != nil && !ip.IsUnspecified() && !ip.IsLoopback() {
		who.IPs = append(who.IPs, ip)
	}
	return who
}

func (c Config) routes() http.Handler {
	mux := http.NewServeMux()
	indicators := slis.New()
	for name, checks := range map[string][]health.Check{"healthz": c.Checks, "livez": c.Checks, "readyz": append(c.Checks[:len(c.Checks):len(c.Checks)], c.ReadyChecks...)} {
		ping := health.Check{Name: "ping", Func: func(context.Context) error { return nil }}
		endpoint := health.New(name, c.Logger, indicators, append([]health.Check{ping}, checks...)...)
		mux.Handle("GET /"+name, endpoint)
		mux.Handle("GET /"+name+"/", endpoint)
	}
	mux.Handle("GET /metrics", promhttp.HandlerFor(c.Gatherer, promhttp.HandlerOpts{}))
	mux.Handle("GET "+slis.Path, indicators.Handler())
	if c.Configz != nil {
		mux.HandleFunc("GET /configz", c.configz)
	}
	if !c.NoProfiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// configz shows what the component works with.
func (c Config) configz(w http.ResponseWriter, r *http.Request) {
	data, err := json.Marshal(c.Configz)
	if err != nil {
		respond.Error(w, r, err)
		return
	}
	_ = respond.Bytes(w, r, http.StatusOK, "application/json", data) // a failed write means that the client is gone
}
