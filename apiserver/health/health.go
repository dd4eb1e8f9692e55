// Package health answers /healthz, /livez and /readyz in upstream's text forms, each with its checks
// (/readyz/etcd asks for one). Details of a failure are for the log and for single checks; the lists, which anybody may
// read, say only which check failed.
//
// Beside upstream's lines, "[+]NAME ok" and "[-]NAME failed: reason withheld", there are some that warn and do not make an endpoint fail:
// "[!]panics ..." when the process has recovered from a panic (package panics), and "[!]NAME ..." for each [Notice] that has something to say.
package health

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"vigil/apiserver/respond"
	"vigil/internal/panics"
	"vigil/internal/slis"
)

// Check is one named condition. Func must be quick; nil means that all is well.
type Check struct {
	Name string
	Func func(ctx context.Context) error
}

// Notice is a named warning. Func must be quick; "" means that there is nothing to say. Anybody may read what it returns.
type Notice struct {
	Name string
	Func func() string
}

// Endpoint is one of the three health endpoints.
type Endpoint struct {
	name    string // "healthz", "livez", "readyz"
	log     *slog.Logger
	checks  []Check
	notices []Notice
	slis    *slis.Metrics
}

// New returns an endpoint with its checks in the order in which they are shown. What each finds when all are asked is counted in slis,
// which may be nil.
func New(name string, log *slog.Logger, slis *slis.Metrics, checks ...Check) *Endpoint {
	return &Endpoint{name: name, log: log, slis: slis, checks: checks}
}

// WithNotices adds warnings to an endpoint that serves nobody yet, and returns it.
func (e *Endpoint) WithNotices(notices ...Notice) *Endpoint {
	e.notices = append(e.notices, notices...)
	return e
}

// ServeHTTP serves /NAME and /NAME/CHECK.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	single := strings.Trim(strings.TrimPrefix(r.URL.Path, "/"+e.name), "/")
	if single == "" {
		e.serveAll(w, r)
		return
	}
	for _, c := range e.checks {
		if c.Name == single {
			if err := c.Func(r.Context()); err != nil {
				http.Error(w, "internal server error: "+err.Error(), http.StatusInternalServerError)
				return
			}
			text(w, "ok")
			return
		}
	}
	for _, n := range e.notices {
		if n.Name == single {
			text(w, cmp.Or(n.Func(), "ok"))
			return
		}
	}
	if single == panics.CheckName {
		text(w, cmp.Or(panics.Notice(), "ok"))
		return
	}
	http.NotFound(w, r)
}

func (e *Endpoint) serveAll(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	excluded := map[string]bool{}
	for _, list := range query["exclude"] {
		for name := range strings.SplitSeq(list, ",") {
			if name != "" {
				excluded[name] = true
			}
		}
	}
	var out bytes.Buffer
	failed := false
	for _, c := range e.checks {
		if excluded[c.Name] {
			delete(excluded, c.Name)
			fmt.Fprintf(&out, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		err := c.Func(r.Context())
		e.slis.Observe(c.Name, e.name, err)
		if err != nil {
			failed = true
			fmt.Fprintf(&out, "[-]%s failed: reason withheld\n", c.Name)
			e.log.Warn("a health check failed; its endpoint answers 500 until it passes", "endpoint", e.name, "check", c.Name, "error", err)
			continue
		}
		fmt.Fprintf(&out, "[+]%s ok\n", c.Name)
	}
	for _, n := range e.notices {
		if notice := n.Func(); notice != "" {
			fmt.Fprintf(&out, "[!]%s %s\n", n.Name, notice)
		}
	}
	out.WriteString(panics.Line())
	if len(excluded) > 0 {
		var names []string
		for name := range excluded {
			names = append(names, fmt.Sprintf("%q", name))
		}
		slices.Sort(names)
		fmt.Fprintf(&out, "warn: some health checks cannot be excluded: no matches for %s\n", respond.Cut(strings.Join(names, ", "), 1<<10))
	}
	if failed {
		http.Error(w, out.String()+e.name+" check failed", http.StatusInternalServerError)
		return
	}
	if !query.Has("verbose") {
		text(w, "ok")
		return
	}
	text(w, out.String()+e.name+" check passed\n")
}

func text(w http.ResponseWriter, s string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	// A failed write means that the client is gone.
	_, _ = w.Write([]byte(s))
}
