package apiserver

import (
	"net/http"
	"sync/atomic"
	"time"

	"vigil/apiserver/respond"
	"vigil/h2"
)

// recorder notes the status of a response. Handlers reach the connection's other abilities (flush, deadlines, hijack)
// through http.ResponseController, which unwraps it.
type recorder struct {
	http.ResponseWriter
	code int           // 0 until the header has been written
	copy *responseCopy // for the audit; nil when nobody wants one

	begun func() // called when the header is written; nil when nobody wants to know
	stuck func() // called when a write has waited for the client for stuckAfter; nil when nobody wants to know

	keeping bool          // the request holds seats: what is written goes out when it has given them back
	passed  int           // bytes that the transport has taken meanwhile without waiting for the client
	kept    *[]byte       // the others; nil when there are none
	owed    int64         // of budget, bytes
	budget  *atomic.Int64 // bytes kept beyond keepFree by all requests
}

const (
	// stuckAfter bounds how long a list that holds seats waits for its client to read. After it the list gives its seats back.
	stuckAfter = 100 * time.Millisecond
	// keepFree is how much of an answer may always be kept, in bytes; keepAll is how much beyond that all answers together may.
	keepFree = 64 << 10
	keepAll  = 64 << 20
)

// keep has what is written from now on wait for release. budget counts what all keep.
func (r *recorder) keep(budget *atomic.Int64) { r.keeping, r.budget = true, budget }

// release writes what was kept, and what comes from now on as it comes.
func (r *recorder) release() {
	r.keeping = false
	if r.kept == nil {
		return
	}
	// A failed write means that the client is gone.
	_, _ = r.ResponseWriter.Write(*r.kept)
	r.drop()
}

// drop forgets what was kept.
func (r *recorder) drop() {
	r.keeping = false
	if r.kept != nil {
		respond.Release(r.kept)
		r.kept = nil
	}
	if r.owed > 0 {
		r.budget.Add(-r.owed)
		r.owed = 0
	}
}

// retain keeps a copy of p. It reports false when p is to be written now: because the transport keeps it itself, or because too much is kept, so
// that the request has to wait for its client with the seats it holds.
func (r *recorder) retain(p []byte) bool {
	if r.kept == nil {
		if _, ok := r.ResponseWriter.(h2.StreamWriter); ok && r.passed+len(p) <= h2.WriteBuffer {
			r.passed += len(p)
			return false
		}
		r.kept = respond.Buffer()
	}
	if more := int64(len(*r.kept) + len(p) - keepFree); more > r.owed {
		if r.budget.Add(more-r.owed) > keepAll {
			r.budget.Add(r.owed - more)
			r.release()
			return false
		}
		r.owed = more
	}
	*r.kept = append(*r.kept, p...)
	return true
}

func (r *recorder) WriteHeader(code int) {
	if r.code == 0 && code >= 200 {
		r.note(code)
	}
	r.ResponseWriter.WriteHeader(code)
}

// note tells those concerned what the response begins with.
func (r *recorder) note(code int) {
	r.code = code
	if r.begun != nil {
		r.begun()
	}
	if r.copy != nil {
		r.copy.begin(code)
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.code == 0 {
		r.note(http.StatusOK)
	}
	if r.copy != nil {
		r.copy.write(p)
	}
	if r.keeping && r.retain(p) {
		return len(p), nil
	}
	if r.stuck != nil {
		defer time.AfterFunc(stuckAfter, r.stuck).Stop()
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap is what http.ResponseController looks for.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
