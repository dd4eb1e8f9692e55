package metrics

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Verb is a request's verb as metrics label it.
type Verb uint8

// The verbs. Other is everything that has no name here.
const (
	Get Verb = iota
	List
	Watch
	Post
	Put
	Patch
	Apply
	Delete
	DeleteCollection
	Connect
	Other
	verbs
)

var verbNames = [verbs]string{"GET", "LIST", "WATCH", "POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION", "CONNECT", "OTHER"}

// String returns the label's value.
func (v Verb) String() string { return verbNames[v] }

var scopeNames = [...]string{"", "cluster", "namespace", "resource"}

func scopeIndex(scope string) int {
	switch scope {
	case "cluster":
		return 1
	case "namespace":
		return 2
	case "resource":
		return 3
	}
	return 0
}

// Resource are the metrics of one resource or subresource, or of all non-resource paths.
type Resource struct {
	m                                     *Metrics
	group, version, resource, subresource string
	forgotten                             bool // guarded by Metrics.mu

	// Events and EventSizes are about what watches deliver. What became of watchers the cache counts.
	Events     prometheus.Counter
	EventSizes prometheus.Observer
	// Lists, Returned and ListTime are about lists from the cache.
	Lists    prometheus.Counter
	Returned prometheus.Counter
	ListTime prometheus.Observer

	series [verbs][len(scopeNames)]atomic.Pointer[series]
}

// series are the metrics of one resource, verb and scope; its counters are made when first needed.
type series struct {
	duration, sli prometheus.Observer
	running       prometheus.Gauge

	codes sync.Map // int or dryCode → prometheus.Counter
}

type dryCode int

// Resource resolves the metrics of one resource. Empty strings stand for non-resource paths.
func (m *Metrics) Resource(group, version, resource, subresource string) *Resource {
	r := &Resource{m: m, group: group, version: version, resource: resource, subresource: subresource}
	if resource != "" && subresource == "" {
		r.Events = m.watchEvents.WithLabelValues(group, version, resource)
		r.EventSizes = m.watchSizes.WithLabelValues(group, version, resource)
		r.Lists = m.listTotal.WithLabelValues(group, resource)
		r.Returned = m.returned.WithLabelValues(group, resource)
		r.ListTime = m.listTime.WithLabelValues(group, resource)
	}
	return r
}

func (r *Resource) labels(verb Verb, scope int) []string {
	return []string{verb.String(), r.group, r.version, r.resource, r.subresource, scopeNames[scope], component}
}

func (r *Resource) find(verb Verb, scope string) *series {
	n := scopeIndex(scope)
	slot := &r.series[verb][n]
	if s := slot.Load(); s != nil {
		return s
	}
	r.m.mu.RLock()
	defer r.m.mu.RUnlock()
	if r.forgotten {
		return discarded()
	}
	l := r.labels(verb, n)
	s := &series{
		duration: r.m.duration.WithLabelValues(append([]string{""}, l...)...),
		sli:      r.m.sli.WithLabelValues(l...),
	}
	if verb == Watch || verb == Connect {
		s.running = r.m.longRunning.WithLabelValues(l...)
	}
	// A lost race leaves the winner's observers in use: both lead to the same metrics.
	if !slot.CompareAndSwap(nil, s) {
		return slot.Load()
	}
	return s
}

// Done counts an answered request.
func (r *Resource) Done(verb Verb, scope string, code int, dryRun bool, took time.Duration) {
	s := r.find(verb, scope)
	if verb != Watch && verb != Connect {
		s.duration.Observe(took.Seconds())
		s.sli.Observe(took.Seconds())
	}
	var key any = code
	dry := ""
	if dryRun {
		key, dry = dryCode(code), "All"
	}
	c, ok := s.codes.Load(key)
	if !ok {
		if c, ok = r.code(s, verb, scope, key, strconv.Itoa(code), dry); !ok {
			return
		}
	}
	c.(prometheus.Counter).Inc()
}

// code makes the counter of a status code. It reports false when the resource is forgotten.
func (r *Resource) code(s *series, verb Verb, scope string, key any, code, dry string) (counter any, ok bool) {
	r.m.mu.RLock()
	defer r.m.mu.RUnlock()
	if r.forgotten {
		return nil, false
	}
	l := r.labels(verb, scopeIndex(scope))
	counter, _ = s.codes.LoadOrStore(key, r.m.requests.WithLabelValues(append([]string{code, dry}, l...)...))
	return counter, true
}

// discarded counts what nobody sees.
func discarded() *series {
	nobody := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "discarded"})
	return &series{duration: nobody, sli: nobody, running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "discarded"})}
}

// Forget drops the series of a resource, or of a subresource, that is not served any more. What is still counted about it is lost. all says that no
// other version of the resource is served: then what the versions share goes, too.
func (r *Resource) Forget(all bool) {
	r.m.mu.Lock()
	defer r.m.mu.Unlock()
	r.forgotten = true
	shared := prometheus.Labels{"group": r.group, "resource": r.resource}
	own := prometheus.Labels{"group": r.group, "resource": r.resource, "version": r.version}
	of := prometheus.Labels{"group": r.group, "resource": r.resource, "version": r.version, "subresource": r.subresource}
	for _, vec := range []partial{r.m.requests, r.m.duration, r.m.sli, r.m.longRunning, r.m.aborted} {
		vec.DeletePartialMatch(of)
	}
	if r.subresource != "" {
		return
	}
	for _, vec := range []partial{r.m.watchEvents, r.m.watchSizes, r.m.watchList} {
		vec.DeletePartialMatch(own)
	}
	if all {
		for _, vec := range []partial{r.m.listTime, r.m.listTotal, r.m.returned} {
			vec.DeletePartialMatch(shared)
		}
	}
}

// partial is a vector of metrics.
type partial interface {
	DeletePartialMatch(prometheus.Labels) int
}

// Running counts a watch or connect request as under way; the caller calls the gauge's Dec at its end.
func (r *Resource) Running(verb Verb, scope string) prometheus.Gauge {
	g := r.find(verb, scope).running
	g.Inc()
	return g
}

// Aborted counts a request that panicked.
func (r *Resource) Aborted(verb Verb, scope string) {
	r.m.mu.RLock()
	defer r.m.mu.RUnlock()
	if r.forgotten {
		return
	}
	r.m.aborted.WithLabelValues(r.labels(verb, scopeIndex(scope))...).Inc()
}

// WatchList observes the time that the initial events of a watch took.
func (r *Resource) WatchList(scope string, took time.Duration) {
	r.m.mu.RLock()
	defer r.m.mu.RUnlock()
	if r.forgotten {
		return
	}
	r.m.watchList.WithLabelValues(r.group, r.version, r.resource, scope).Observe(took.Seconds())
}
