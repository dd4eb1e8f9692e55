package store

import (
	"context"
	"fmt"
	"sync/atomic"

	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// localWatch is a watch stream of the storage layer itself. It has no fragments and cannot break; etcd buffers 128
// responses for a reader that is late and reads them again from disk for one that is later still.
type localWatch struct {
	embedded *Embedded
	stream   mvcc.WatchStream
	from     int64
	out      chan watchResponse
	progress chan struct{}
	stop     context.CancelFunc
	done     chan struct{} // closed when run has returned
	failure  atomic.Pointer[error]
}

func (l *local) watch(ctx context.Context, key, end []byte, from int64) (watchStream, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.leave()
	if len(end) == 1 && end[0] == 0 {
		end = []byte{}
	}
	ctx, stop := context.WithCancel(ctx)
	w := &localWatch{
		embedded: l.embedded,
		stream:   l.server.Watchable().NewWatchStream(),
		from:     from,
		out:      make(chan watchResponse),
		progress: make(chan struct{}, 1),
		stop:     stop,
		done:     make(chan struct{}),
	}
	if _, err := w.stream.Watch(ctx, 0, key, end, from); err != nil {
		stop()
		w.stream.Close()
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	go w.run(ctx)
	return w, nil
}

// run passes the stream's responses on until ctx or etcd ends.
func (w *localWatch) run(ctx context.Context) {
	defer close(w.done)
	defer close(w.out)
	fail := func(err error) { w.failure.Store(&err) }
	for {
		var r watchResponse
		select {
		case in := <-w.stream.Chan():
			if in.CompactRevision != 0 {
				fail(ErrCompacted)
				return
			}
			r = watchResponse{events: in.Events, rev: in.Revision}
		case <-w.progress:
			if w.embedded.enter() != nil {
				continue // Done says so too
			}
			asked := w.stream.RequestProgressAll() || w.stream.Rev() >= w.from
			w.embedded.leave()
			if asked {
				continue // the answer comes through the channel; or it still catches up and must be asked again
			}
			r.rev = w.from - 1 // nothing has happened since: complete as far as the feed already is
		case <-w.embedded.Done():
			fail(fmt.Errorf("%w: embedded etcd has ended", ErrUnavailable))
			return
		case <-ctx.Done():
			fail(ctx.Err())
			return
		}
		select {
		case w.out <- r:
		case <-ctx.Done():
			fail(ctx.Err())
			return
		}
	}
}

func (w *localWatch) responses() <-chan watchResponse { return w.out }

func (w *localWatch) err() error {
	if p := w.failure.Load(); p != nil {
		return *p
	}
	return nil
}

func (w *localWatch) requestProgress() {
	select {
	case w.progress <- struct{}{}:
	default:
	}
}

func (w *localWatch) close() {
	w.stop()
	<-w.done
	w.stream.Close()
}
