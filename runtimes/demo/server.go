package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// server is the web server's state.
type server struct {
	options options
	log     *slog.Logger

	started, live, ready check

	mu   sync.Mutex
	held [][]byte // by /hog
}

// check is the answer of one kind of probe.
type check struct {
	failing atomic.Bool
	from    time.Time // it fails before
}

func (c *check) ok() bool { return !c.failing.Load() && !time.Now().Before(c.from) }
func (c *check) fail()    { c.failing.Store(true) }

func newServer(o options, log *slog.Logger) *server {
	s := &server{options: o, log: log}
	from := time.Now().Add(o.startDelay)
	s.started.from, s.live.from, s.ready.from = from, from, from
	s.ready.failing.Store(o.unready)
	return s
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", s.who)
	mux.HandleFunc("/startz", s.started.serve)
	mux.HandleFunc("/healthz", s.live.serve)
	mux.HandleFunc("/readyz", s.ready.serve)
	mux.HandleFunc("/version", text(func(*http.Request) (string, error) { return s.options.version, nil }))
	mux.HandleFunc("/hostname", text(func(*http.Request) (string, error) { return os.Hostname() }))
	mux.HandleFunc("/env", runs("env"))
	mux.HandleFunc("/file", runs("cat", "path"))
	mux.HandleFunc("/ls", runs("ls", "path"))
	mux.HandleFunc("/fetch", runs("fetch", "url"))
	mux.HandleFunc("/headers", headers)
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	mux.HandleFunc("/stream", stream)
	mux.HandleFunc("/status", status)
	mux.HandleFunc("/delay", delay)
	mux.HandleFunc("/exit", s.exit)
	mux.HandleFunc("/hog", s.hog)
	mux.HandleFunc("/spin", s.spin)
	mux.HandleFunc("/log", s.print)
	mux.HandleFunc("/grpc.health.v1.Health/Check", s.grpcHealth)
	return s.logged(mux)
}

// logged writes a line for each request but those of probes that go well.
func (s *server) logged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := time.Now()
		next.ServeHTTP(w, r)
		if !s.options.quiet {
			s.log.Info("request", "method", r.Method, "path", r.URL.RequestURI(), "from", r.RemoteAddr, "took", time.Since(begin).Round(time.Microsecond))
		}
	})
}

// who says who this is: as much as the pod's author has put into the environment.
func (s *server) who(w http.ResponseWriter, r *http.Request) {
	name, _ := os.Hostname()
	fmt.Fprintf(w, "Hello from %s\n", name)
	for _, line := range [][2]string{
		{"version", s.options.version}, {"pod", os.Getenv("POD_NAME")}, {"namespace", os.Getenv("POD_NAMESPACE")},
		{"ip", os.Getenv("POD_IP")}, {"node", os.Getenv("NODE_NAME")}, {"you", r.RemoteAddr},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "%s: %s\n", line[0], line[1])
		}
	}
}

// serve answers a probe, or switches what it answers.
func (c *check) serve(w http.ResponseWriter, r *http.Request) {
	switch r.FormValue("set") {
	case "fail":
		c.fail()
		return
	case "ok":
		c.failing.Store(false)
		return
	}
	if !c.ok() {
		http.Error(w, "not ok", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok")
}

func (s *server) exit(_ http.ResponseWriter, r *http.Request) {
	code, _ := strconv.Atoi(r.FormValue("code"))
	s.log.Info("exiting", "code", code)
	os.Exit(code)
}

func (s *server) hog(w http.ResponseWriter, r *http.Request) {
	mb, err := strconv.Atoi(r.FormValue("mb"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, allocate(mb)...)
	fmt.Fprintf(w, "holding %d MB\n", len(s.held))
}

func (s *server) spin(w http.ResponseWriter, r *http.Request) {
	d, err := seconds(r.FormValue("for"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	turns := 0
	for end := time.Now().Add(d); time.Now().Before(end); {
		turns++
	}
	fmt.Fprintf(w, "%d turns\n", turns)
}

func (s *server) print(_ http.ResponseWriter, r *http.Request) {
	out := os.Stdout
	if r.FormValue("to") == "stderr" {
		out = os.Stderr
	}
	n, _ := strconv.Atoi(r.FormValue("n"))
	for range max(n, 1) {
		fmt.Fprintln(out, r.FormValue("text"))
	}
}
