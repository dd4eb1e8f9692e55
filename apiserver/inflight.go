package apiserver

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// inflight bounds the requests under way of one sort. It never makes anybody wait: what is too much is refused at once,
// and clients come back after Retry-After.
type inflight struct {
	limit int64 // negative: none
	now   atomic.Int64
	gauge prometheus.Gauge
}

// enter takes a place and says whether there was one. privileged callers always get in: an administrator must be able
// to help an overloaded server. Whoever got in calls leave.
func (i *inflight) enter(privileged bool) bool {
	n := i.now.Add(1)
	if i.limit >= 0 && n > i.limit && !privileged {
		i.now.Add(-1)
		return false
	}
	i.gauge.Set(float64(n))
	return true
}

// count is enter without a limit, for requests that something else has admitted.
func (i *inflight) count() { i.gauge.Set(float64(i.now.Add(1))) }

func (i *inflight) leave() { i.gauge.Set(float64(i.now.Add(-1))) }

// tooMany is the answer to a request that found no place: plain text, as upstream's filter has it.
func tooMany(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, tooManyText, http.StatusTooManyRequests)
}

const tooManyText = "Too many requests, please try again later."
