package server

import (
	"io"
	"net/http"
	"net/http/pprof"
	"strings"

	"vigil/internal/slis"
)

// routes says who answers for which path, once the caller may.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pods", s.pods)
	mux.HandleFunc("GET /pods/{$}", s.pods)
	mux.HandleFunc("GET /runningpods/{$}", s.runningPods)
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", s.containerLogs)
	for _, uid := range []string{"", "/{uid}"} { // the old form names the pod's UID
		for _, method := range []string{"GET ", "POST "} {
			mux.HandleFunc(method+"/exec/{namespace}/{pod}"+uid+"/{container}", s.exec)
			mux.HandleFunc(method+"/attach/{namespace}/{pod}"+uid+"/{container}", s.attach)
			mux.HandleFunc(method+"/portForward/{namespace}/{pod}"+uid, s.portForward)
		}
		mux.HandleFunc("POST /run/{namespace}/{pod}"+uid+"/{container}", s.run)
	}
	mux.HandleFunc("/healthz", s.healthz)
	mux.HandleFunc("/healthz/{check}", s.healthz)
	mux.HandleFunc("GET /configz", s.configz)
	mux.Handle("GET /logs/", s.nodeLogs())
	if s.config.Checkpoints != nil {
		mux.HandleFunc("POST /checkpoint/{namespace}/{pod}/{container}", s.checkpoint)
	}
	if s.config.Metrics != nil {
		mux.Handle("GET /metrics", metricsOf(s.config.Metrics, func(name string) bool { return !strings.HasPrefix(name, "prober_") }))
		mux.Handle("GET /metrics/probes", metricsOf(s.config.Metrics, func(name string) bool { return strings.HasPrefix(name, "prober_") }))
	}
	if s.config.SLIs != nil {
		mux.Handle("GET "+slis.Path, s.config.SLIs.Handler())
	}
	for path, handler := range s.config.Handlers {
		mux.Handle(path, handler)
	}
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// ServeHTTP is the way of a request: who it is, whether they may, and then who answers.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer s.metrics.begin(r)()
	user, err := s.who.authenticate(r)
	if err != nil {
		s.log.Debug("the kubelet refused a request without valid credentials", "error", err, "remote", r.RemoteAddr)
	}
	if user == nil {
		refuse(w, "Unauthorized", http.StatusUnauthorized)
		return
	}
	allowed, what, err := s.may.authorize(r, user)
	switch {
	case err != nil:
		s.log.Warn("the kubelet could not ask the API server whether a request is allowed; it refuses it", "error", err)
		refuse(w, "Authorization error ("+what+")", http.StatusInternalServerError)
	case !allowed:
		refuse(w, "Forbidden ("+what+")\n", http.StatusForbidden)
	default:
		s.handler.ServeHTTP(w, r)
	}
}

// refuse answers with a text as it is: the API server passes it on to people.
func refuse(w http.ResponseWriter, text string, code int) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // a failed write means that the client is gone
}
