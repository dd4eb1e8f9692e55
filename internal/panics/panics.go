// Package panics counts the panics that a process has recovered from and makes them visible: in a metric (vigil_panics_total), in
// the verbose answers of the health endpoints, in `vigil status`, and in the log.
//
// A panic is recovered where one piece of work can fail alone: a request, a watch, a reconciliation, an event of an informer's handler, a
// round of a pod's worker, an attempt to schedule, a probe. The others go on, and the piece of work is tried again with back-off or
// its client is told. Where a broken invariant would make everything that follows wrong (the watch cache, an informer's indexes, etcd) nothing is
// recovered: the process ends and whoever supervises it starts it again.
//
// The counts are those of the process, as with Go's own metrics: all components in it share them.
package panics

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Place is a kind of work that may panic without ending the process.
type Place int

// The places. What each goes on with is in the table places.
const (
	Request Place = iota
	Watch
	Connection
	HealthCheck
	StartHook
	Background
	ComponentRequest
	KubeletRequest
	Handler
	Reconcile
	Scheduling
	Binding
	PodAdmission
	PodWorker
	PodStatus
	Probe
	Node
	count
)

// places names each place, for the metric's label, and says what follows from a panic there, for the log.
var places = [count]struct{ name, follows string }{
	Request:          {"request", "request panicked; its client gets status 500 or a broken answer, other requests go on"},
	Watch:            {"watch", "watch panicked; it was cut off and its client watches anew"},
	Connection:       {"connection", "HTTP connection panicked; it was closed and its client connects anew"},
	HealthCheck:      {"health-check", "health check panicked; it counts as failed"},
	StartHook:        {"start-hook", "start hook panicked; it is tried again"},
	Background:       {"background", "background work of the server panicked; it is tried again"},
	ComponentRequest: {"component-request", "request to the component's health and metrics port panicked; its client gets a broken answer"},
	KubeletRequest:   {"kubelet-request", "request to the kubelet panicked; its client gets a broken answer"},
	Handler:          {"informer-handler", "informer handler panicked; it goes on with the next object and is told of this one again with back-off, unless that is deleted"},
	Reconcile:        {"reconcile", "reconcile panicked; it is tried again with back-off"},
	Scheduling:       {"scheduling", "scheduling of a pod panicked; it is tried again with back-off"},
	Binding:          {"binding", "binding of a pod panicked; the pod is scheduled again with back-off"},
	PodAdmission:     {"pod-admission", "admission of a pod to the node panicked; it is tried again in some seconds"},
	PodWorker:        {"pod-worker", "worker of a pod panicked; it looks at the pod again with back-off"},
	PodStatus:        {"pod-status", "writing of a pod's status panicked; it is tried again"},
	Probe:            {"probe", "probe of a container panicked; the container is asked again in its next period"},
	Node:             {"node", "work of the kubelet panicked; it is tried again"},
}

func (p Place) String() string { return places[p].name }

// Places are the names of all places, in the order of the constants.
func Places() []string {
	names := make([]string, count)
	for i := range names {
		names[i] = places[i].name
	}
	return names
}

// counts are the panics that were recovered, by place; last is when the last one was, in Unix nanoseconds.
var (
	counts [count]atomic.Int64
	last   atomic.Int64
)

// Count is how many panics the process has recovered from at a place.
func Count(p Place) int64 { return counts[p].Load() }

// Notice says in one line what the process has recovered from; "" when there was nothing. It names places and numbers only: whoever may ask
// for health may read it.
func Notice() string {
	var total int64
	var parts []string
	for p := range count {
		if n := counts[p].Load(); n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%s %d", p, n))
		}
	}
	if total == 0 {
		return ""
	}
	return fmt.Sprintf("recovered: %d (%s), the last at %s; the log has the stack", total, strings.Join(parts, ", "),
		time.Unix(0, last.Load()).UTC().Format(time.RFC3339))
}

// CheckName is the name under which health endpoints and `vigil status` show the notice.
const CheckName = "panics"

// Line is a line for the verbose answer of a health endpoint: "[!]panics " and the notice; "" when there is none, so that the answer is
// upstream's. It does not say [-], which would mean that the endpoint fails.
func Line() string {
	if notice := Notice(); notice != "" {
		return "[!]" + CheckName + " " + notice + "\n"
	}
	return ""
}

// Error is what Try returns for a panic.
type Error struct {
	Place Place
	Value any // what the code panicked with
}

func (e *Error) Error() string { return "panicked: " + text(e.Value) }

// Recovered counts and logs a panic. The function that has recovered it calls this, deferred: the stack is that of the panic then. args are
// further keys and values of the log line.
func Recovered(logger *slog.Logger, place Place, value any, args ...any) {
	counts[place].Add(1)
	last.Store(time.Now().UnixNano())
	if logger == nil {
		return
	}
	lines.write(logger, place, value, args)
}

// Catch is for defer: it ends a panic.
func Catch(logger *slog.Logger, place Place, args ...any) {
	if value := recover(); value != nil {
		Recovered(logger, place, value, args...)
	}
}

// Do calls f and reports whether it returned; a panic is counted and ends there.
func Do(logger *slog.Logger, place Place, f func(), args ...any) (returned bool) {
	defer Catch(logger, place, args...)
	f()
	return true
}

// Try calls f and returns its error, or an *Error for a panic, which is counted.
func Try(logger *slog.Logger, place Place, f func() error, args ...any) (err error) {
	defer func() {
		if value := recover(); value != nil {
			Recovered(logger, place, value, args...)
			err = &Error{place, value}
		}
	}()
	return f()
}

// Call is Try for a function that returns something beside an error; after a panic that is the zero value.
func Call[T any](logger *slog.Logger, place Place, f func() (T, error), args ...any) (result T, err error) {
	err = Try(logger, place, func() (err error) {
		result, err = f()
		return err
	}, args...)
	return result, err
}

// Serve is next for an http.Server: a panic, which net/http would only tell its ErrorLog, is counted before it cuts the answer off.
func Serve(logger *slog.Logger, place Place, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			value := recover()
			if value == nil {
				return
			}
			if value != http.ErrAbortHandler { //nolint:errorlint // the sentinel itself is panicked
				Recovered(logger, place, value, "method", r.Method, "path", cut(r.URL.Path, maxText))
			}
			panic(http.ErrAbortHandler)
		}()
		next.ServeHTTP(w, r)
	})
}

// collector shows the counts as a metric. It can be registered with several registries of a process.
type collector struct{ total *prometheus.Desc }

// NewCollector returns what shows vigil_panics_total.
func NewCollector() prometheus.Collector {
	return &collector{prometheus.NewDesc("vigil_panics_total",
		"Panics that this process has recovered from, by the kind of work that panicked.", []string{"place"}, nil)}
}

func (c *collector) Describe(descs chan<- *prometheus.Desc) { descs <- c.total }

func (c *collector) Collect(metrics chan<- prometheus.Metric) {
	for p := range count {
		metrics <- prometheus.MustNewConstMetric(c.total, prometheus.CounterValue, float64(counts[p].Load()), p.String())
	}
}

// What a log line may say: panics of one piece of code may come thousands of times a second.
const (
	maxText    = 1 << 10 // bytes of the value that was panicked with
	maxStack   = 8 << 10
	maxOrigins = 100         // that are counted one by one; further ones of a place share one
	lineEvery  = time.Minute // a line for each origin
	stackEvery = time.Hour   // that has the stack
)

// origin is a line of code that has panicked, in one kind of work. The line is "" when there are too many.
type origin struct {
	place Place
	line  string // "vigil/kubelet.(*worker).sync:71"
}

// told is what the log was told of an origin.
type told struct {
	times           int64
	logged, stacked time.Time // when a line was written, and one with the stack
}

// journal bounds what is logged.
type journal struct {
	mu      sync.Mutex
	origins map[origin]*told
}

// lines is the process's.
var lines = journal{origins: map[origin]*told{}}

// write logs a panic with its stack, the next ones of the same origin seldom. It is called by what recovers the panic, deferred.
func (j *journal) write(logger *slog.Logger, place Place, value any, args []any) {
	stack, where := trace()
	now := time.Now()
	j.mu.Lock()
	key := origin{place, where}
	o := j.origins[key]
	if o == nil {
		if len(j.origins) >= maxOrigins {
			key.line = ""
		}
		if o = j.origins[key]; o == nil {
			o = &told{}
			j.origins[key] = o
		}
	}
	o.times++
	times, line, stacked := o.times, now.Sub(o.logged) >= lineEvery, now.Sub(o.stacked) >= stackEvery
	if line {
		o.logged = now
	}
	if line && stacked {
		o.stacked = now
	}
	j.mu.Unlock()
	if !line {
		return
	}
	args = append(slices.Clone(args), "panic", text(value), "at", where, "times", times)
	if stacked {
		args = append(args, "stack", stack)
	}
	logger.Error(places[place].follows, args...)
}

// text is what was panicked with. It calls the value's own methods, which may panic themselves.
func text(value any) string {
	return cut(fmt.Sprint(value), maxText) // fmt recovers what String and Error panic with
}

func cut(s string, limit int) string {
	if len(s) > limit {
		return strings.ToValidUTF8(s[:limit], "") + " ..."
	}
	return s
}
