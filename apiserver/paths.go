package apiserver

import (
	"encoding/json"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"vigil/apiserver/discovery"
	"vigil/apiserver/flowcontrol"
	"vigil/apiserver/health"
	"vigil/apiserver/metrics"
	"vigil/apiserver/negotiate"
	"vigil/apiserver/openapi"
	"vigil/apiserver/respond"
	"vigil/apiserver/serviceaccount"
	"vigil/internal/slis"
)

// paths answers for the paths that are no API resources and the same whatever is served. The others (discovery, OpenAPI) are served's.
type paths struct {
	exact    map[string]http.Handler
	prefixes map[string]http.Handler // ending in a slash
}

func newPaths(s *Server) (*paths, error) {
	p := &paths{exact: map[string]http.Handler{}, prefixes: map[string]http.Handler{}}
	indicators := slis.New()
	p.exact[slis.Path] = indicators.Handler()
	checksHealthz, checksLivez, checksReadyz := s.checks()
	for name, checks := range map[string][]health.Check{"healthz": checksHealthz, "livez": checksLivez, "readyz": checksReadyz} {
		e := health.New(name, s.log, indicators, checks...).WithNotices(health.Notice{Name: "etcd-space", Func: s.store.Full})
		p.exact["/"+name] = e
		p.prefixes["/"+name+"/"] = e
	}

	version, err := json.MarshalIndent(s.version, "", "  ")
	if err != nil {
		return nil, err
	}
	p.exact["/version"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A failed write means that the client is gone.
		_ = respond.Bytes(w, r, http.StatusOK, "application/json", version)
	})
	gatherer := s.config.Gatherer
	if s.fairness != nil {
		gatherer = prometheus.Gatherers{gatherer, flowcontrol.Metrics}
		p.prefixes[flowcontrol.DumpPrefix] = s.fairness.Dumps()
	}
	p.exact["/metrics"] = promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true})

	if docs := s.tokens.Documents; docs != nil {
		p.exact[serviceaccount.ConfigPath], p.exact[serviceaccount.KeysPath] = docs, docs
	}

	if !s.config.NoProfiling {
		p.prefixes["/debug/pprof/"] = http.HandlerFunc(pprof.Index)
		p.exact["/debug/pprof/cmdline"] = http.HandlerFunc(pprof.Cmdline)
		p.exact["/debug/pprof/profile"] = http.HandlerFunc(pprof.Profile)
		p.exact["/debug/pprof/symbol"] = http.HandlerFunc(pprof.Symbol)
		p.exact["/debug/pprof/trace"] = http.HandlerFunc(pprof.Trace)
	}
	p.exact["/debug/watchcache"] = s.caches
	return p, nil
}

// list returns all paths in order, those of docs included.
func (p *paths) list(docs *discovery.Documents) []string {
	out := append(docs.Paths(), "/openapi/v2", "/openapi/v3")
	for path := range p.exact {
		out = append(out, path)
	}
	for path := range p.prefixes {
		if short := strings.TrimSuffix(path, "/"); p.exact[short] == nil {
			out = append(out, short)
		}
	}
	slices.Sort(out)
	return out
}

// serveIndex answers with the list of all paths.
func (c *call) serveIndex(code int) {
	index, err := c.served.index()
	if err == nil {
		err = respond.JSON(&c.rec, c.req, code, negotiate.Result{Pretty: true}, index)
	}
	if err != nil {
		respond.Error(&c.rec, c.req, err)
	}
}

// handler returns what answers for the request's path, nil if there is nothing.
func (c *call) handler() http.Handler {
	path := c.info.Path
	switch {
	case path == "/":
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { c.serveIndex(http.StatusOK) })
	case c.served.docs.Has(path):
		return c.served.docs
	case openapi.Has(path):
		return c.served.openapi
	}
	return c.server.paths.find(path)
}

// find returns what answers for a path, nil if there is nothing.
func (p *paths) find(path string) http.Handler {
	if h := p.exact[path]; h != nil {
		return h
	}
	for i := len(path) - 1; i > 0; i-- {
		if path[i] == '/' {
			if h := p.prefixes[path[:i+1]]; h != nil {
				return h
			}
		}
	}
	if path != "/" && strings.HasSuffix(path, "/") {
		return p.exact[strings.TrimSuffix(path, "/")]
	}
	return nil
}

// servePath answers a request for a non-resource path.
func (c *call) servePath() {
	c.verb = methodVerb(c.req.Method)
	if !c.beginAudit(longRunning(c.info.Path)) || !c.impersonate() {
		return
	}
	switch {
	case longRunning(c.info.Path):
		c.serveShortPath()
	case large(c.info.Path):
		c.listInTurn(1, c.serveShortPath)
	default:
		c.inTurn(1, c.serveShortPath)
	}
}

// large says whether what a path shows may have megabytes.
func large(path string) bool {
	return path == "/metrics" || strings.HasPrefix(path, "/openapi/") || strings.HasPrefix(path, "/debug/")
}

// serveShortPath answers a request whose turn it is.
func (c *call) serveShortPath() {
	if !c.authorize() {
		return
	}
	h := c.handler()
	switch {
	case h == nil && (strings.HasPrefix(c.info.Path, "/api/") || strings.HasPrefix(c.info.Path, "/apis/")):
		c.notFound()
	case h == nil:
		c.serveIndex(http.StatusNotFound)
	case c.req.Method != http.MethodGet && c.req.Method != http.MethodHead && !strings.HasPrefix(c.info.Path, "/debug/pprof/"):
		c.fail(respond.NoMethod())
	default:
		h.ServeHTTP(&c.rec, c.req)
	}
}

// longRunning says whether a path may take as long as it is asked to.
func longRunning(path string) bool {
	return path == "/debug/pprof/profile" || path == "/debug/pprof/trace"
}

func methodVerb(method string) metrics.Verb {
	switch method {
	case http.MethodGet, http.MethodHead:
		return metrics.Get
	case http.MethodPost:
		return metrics.Post
	case http.MethodPut:
		return metrics.Put
	case http.MethodPatch:
		return metrics.Patch
	case http.MethodDelete:
		return metrics.Delete
	}
	return metrics.Other
}
