package flowcontrol

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// waitContext bounds how long a request may wait. It knows the request, for debug dumps. There is no timer before somebody asks for
// Done, which nobody does for requests that cannot have to wait. Its methods are for one goroutine, but for Value.
type waitContext struct {
	context.Context // the request's own, with what it is about
	limit           time.Duration
	timed           atomic.Pointer[timed]
}

type timed struct {
	context.Context
	cancel context.CancelFunc
}

func newWaitContext(ctx context.Context, r *Request, limit time.Duration) *waitContext {
	return &waitContext{Context: request.WithUser(request.WithRequestInfo(ctx, &r.Info), (*info)(r.User)), limit: limit}
}

func (w *waitContext) Done() <-chan struct{} {
	t := w.timed.Load()
	if t == nil {
		t = new(timed)
		t.Context, t.cancel = context.WithTimeout(w.Context, w.limit)
		w.timed.Store(t)
	}
	return t.Done()
}

func (w *waitContext) Err() error {
	if t := w.timed.Load(); t != nil {
		return t.Err()
	}
	return w.Context.Err()
}

func (w *waitContext) stop() {
	if t := w.timed.Load(); t != nil {
		t.cancel()
	}
}
