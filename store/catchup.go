package store

import (
	"context"
	"time"
)

// A watch that begins in the past gets at most 1,000 revisions from etcd at once, and the next ones 100 ms later; each time
// etcd reads all that is left (mvcc's watchBatchMaxRevs, watchResyncPeriod). So what lies further back than one such turn is
// read through several watches, which etcd serves in the same turn.
const (
	stretchRevs   = 900 // a little less than a turn, whose last revision shows that the ones before are complete
	stretchesMost = 16  // what lies behind them comes turn by turn
)

// stretch is a part of history: all changes of revisions from up to but not including to.
type stretch struct {
	from, to int64
	done     chan struct{} // closed when events and err are set
	events   []Event
	err      error
}

// catchUp begins to read what happened after revision after, up to about newest. It returns the stretches in order, and the
// first revision that is in none of them. Reading ends with ctx.
func (s *Store) catchUp(ctx context.Context, after, newest int64) (stretches []*stretch, next int64) {
	next = after + 1
	for newest-next >= stretchRevs && len(stretches) < stretchesMost {
		part := &stretch{from: next, to: next + stretchRevs, done: make(chan struct{})}
		next = part.to
		stretches = append(stretches, part)
		go func() {
			defer close(part.done)
			part.events, part.err = s.history(ctx, part.from, part.to)
		}()
	}
	return stretches, next
}

// history returns the changes of revisions from up to but not including to, which have happened.
func (s *Store) history(ctx context.Context, from, to int64) ([]Event, error) {
	w, err := s.engine.watch(ctx, []byte(s.prefix), prefixEnd(s.prefix), from)
	if err != nil {
		return nil, err
	}
	defer w.close()
	// Later revisions may all be of keys outside the prefix. Then only progress tells that the stretch is complete.
	ask := time.NewTicker(progressRetry)
	defer ask.Stop()
	var events []Event
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-ask.C:
			w.requestProgress()
		case r, ok := <-w.responses():
			if !ok {
				return nil, w.err()
			}
			if len(r.events) == 0 && r.rev >= to-1 {
				return events, nil
			}
			for _, e := range r.events {
				if e.Kv.ModRevision >= to {
					return events, nil
				}
				events = append(events, s.toEvent(ctx, e))
			}
		}
	}
}
