package watchcache

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// ServeHTTP writes what is in the caches now, as text: for each its objects, its window, and the branches that
// watchers stand on. "?resource=pods" shows only one, with all its branches. "?check" checks them all (see [Cache.Check]) and says what
// is wrong, with status 500 if anything is.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	query := r.URL.Query()
	if query.Has("check") {
		s.report(w, query.Get("resource"))
		return
	}
	s.dump(w, query.Get("resource"))
}

// report writes what Check says of each cache, the broken ones first.
func (s *Server) report(w http.ResponseWriter, resource string) {
	s.mu.Lock()
	caches := slices.Clone(s.caches)
	s.mu.Unlock()
	var sound, broken strings.Builder
	for _, c := range caches {
		if resource != "" && resource != c.res.Name {
			continue
		}
		start := time.Now()
		if err := c.Check(); err != nil {
			fmt.Fprintln(&broken, err)
			continue
		}
		fmt.Fprintf(&sound, "%s: sound, %d objects, %v\n", c.res.Name, c.Len(), time.Since(start).Round(time.Microsecond))
	}
	if broken.Len() > 0 {
		w.WriteHeader(http.StatusInternalServerError)
	}
	_, _ = io.WriteString(w, broken.String()+sound.String())
}

// dump writes to w; an error of w ends the connection, so there is nothing to do about it here.
func (s *Server) dump(out io.Writer, resource string) {
	s.mu.Lock()
	caches := slices.Clone(s.caches)
	s.mu.Unlock()
	fmt.Fprintf(out, "revision %d, ready %v, exact reads from %d, reads waiting %d\n\n",
		s.rev.Load(), s.Ready(), s.horizon.Load(), s.fresh.waiters.Load())
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "RESOURCE\tOBJECTS\tBROKEN\tREVISION\tEVENTS\tKiB\tAFTER\tCHUNKS\tBRANCHES\tCURSORS\tWAITING")
	for _, c := range caches {
		if resource == "" || resource == c.res.Name {
			c.dump(w, resource != "")
		}
	}
	_ = w.Flush()
}

type branchLine struct {
	name             string
	cursors, waiting int
}

func (c *Cache) dump(w io.Writer, branches bool) {
	c.mu.Lock()
	l, st := c.log, c.current.Load()
	if l == nil {
		c.mu.Unlock()
		fmt.Fprintf(w, "%s\tnot loaded\n", c.res.Name)
		return
	}
	var lines []branchLine
	total := branchLine{}
	l.all(func(b *branch) {
		b.mu.Lock()
		line := branchLine{b.key.describe(c.res), len(b.cursors), len(b.waiting)}
		b.mu.Unlock()
		lines = append(lines, line)
		total.cursors += line.cursors
		total.waiting += line.waiting
	})
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", c.res.Name, st.objects.Len(), len(st.broken), st.rev,
		l.events, l.bytes>>10, l.oldest, len(l.chunks), len(lines), total.cursors, total.waiting)
	c.mu.Unlock()
	if !branches {
		return
	}
	slices.SortFunc(lines, func(a, b branchLine) int { return strings.Compare(a.name, b.name) })
	for _, line := range lines {
		fmt.Fprintf(w, "  %s\t\t\t\t\t\t\t\t\t%d\t%d\n", line.name, line.cursors, line.waiting)
	}
}

func (k branchKey) describe(r Resource) string {
	switch k.by {
	case byAll:
		return "all"
	case byNamespace:
		return "namespace=" + k.value
	case byKey:
		return "key=" + k.value
	}
	return r.Indexes[k.by-byIndex] + "=" + k.value
}
