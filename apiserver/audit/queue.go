package audit

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/client-go/util/flowcontrol"

	"vigil/internal/panics"
)

// Queue says how events reach a backend. Zero fields get defaults.
type Queue struct {
	Mode Mode // default Batch

	BufferSize   int           // events waiting beyond which new ones are dropped, default 10000
	MaxBatchSize int           // events handed over at once, default 400 (webhook) or 1 (log)
	MaxBatchWait time.Duration // how long a batch is waited for, default 30 s

	Throttle      bool    // bound the number of batches per second
	ThrottleQPS   float32 // default 10
	ThrottleBurst int     // default 15

	Truncate Truncate
}

// backend is where events go. It is called by one goroutine at a time in batch mode, by many in the others.
type backend interface {
	// write delivers events. It gives up, with an error, when ctx ends.
	write(ctx context.Context, events []auditapi.Event) error
	close() error
}

// flushTime bounds how long events that are left at the end of the server are tried to be delivered.
const flushTime = 5 * time.Second

func (a *Auditor) add(name string, q Queue, b backend) error {
	if q.Truncate.Enabled {
		b = &truncating{backend: b, limits: q.Truncate.withDefaults(), lost: func(n int) { a.metrics.lost("truncate", n) }}
	}
	switch q.Mode {
	case "", Batch:
		if q.BufferSize == 0 {
			q.BufferSize = 10000
		}
		if q.MaxBatchSize == 0 {
			q.MaxBatchSize = 1
		}
		if q.MaxBatchWait == 0 {
			q.MaxBatchWait = 30 * time.Second
		}
		s := &queued{name: name, backend: b, events: make(chan auditapi.Event, q.BufferSize), config: q, metrics: a.metrics, log: a.log}
		if q.Throttle {
			s.limit = flowcontrol.NewTokenBucketRateLimiter(q.ThrottleQPS, q.ThrottleBurst)
		}
		a.sinks = append(a.sinks, s)
	case Blocking, BlockingStrict:
		a.sinks = append(a.sinks, &direct{name: name, backend: b, mode: q.Mode, metrics: a.metrics, log: a.log})
	default:
		return fmt.Errorf("audit %s: mode %q is not known; use %s, %s, %s", name, q.Mode, Batch, Blocking, BlockingStrict)
	}
	return nil
}

// queued hands events over from a goroutine of its own.
type queued struct {
	name    string
	backend backend
	config  Queue
	limit   flowcontrol.RateLimiter // nil: none
	events  chan auditapi.Event
	metrics *auditMetrics
	log     *slog.Logger
}

func (q *queued) strict() bool { return false }

// process never blocks. What an event points to is never changed afterwards, so a shallow copy will do.
func (q *queued) process(e *auditapi.Event) bool {
	select {
	case q.events <- *e:
		return true
	default:
		q.metrics.lost("buffered", 1)
		return false
	}
}

func (q *queued) run(ctx context.Context) error {
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(flushTime, cancel) })
	defer stop()
	for ctx.Err() == nil {
		q.deliver(work, q.collect(ctx))
	}
	for batch := q.take(nil); len(batch) > 0; batch = q.take(nil) {
		q.deliver(work, batch)
	}
	return q.backend.close()
}

// collect waits for a batch: until it is full, or as long as a batch may be waited for.
func (q *queued) collect(ctx context.Context) []auditapi.Event {
	var batch []auditapi.Event
	select {
	case e := <-q.events:
		batch = append(batch, e)
	case <-ctx.Done():
		return nil
	}
	if batch = q.take(batch); len(batch) == q.config.MaxBatchSize {
		return batch
	}
	timer := time.NewTimer(q.config.MaxBatchWait)
	defer timer.Stop()
	for len(batch) < q.config.MaxBatchSize {
		select {
		case e := <-q.events:
			batch = append(batch, e)
		case <-timer.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// take adds what is waiting already.
func (q *queued) take(batch []auditapi.Event) []auditapi.Event {
	for len(batch) < q.config.MaxBatchSize {
		select {
		case e := <-q.events:
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

func (q *queued) deliver(ctx context.Context, batch []auditapi.Event) {
	if len(batch) == 0 {
		return
	}
	if q.limit != nil {
		_ = q.limit.Wait(ctx) // fails at the end only, as the write will
	}
	if err := panics.Try(q.log, panics.Background, func() error { return q.backend.write(ctx, batch) }); err != nil {
		q.metrics.lost(q.name, len(batch))
		q.log.Error("an audit backend did not take events; they are lost: see whether its file or webhook can be written to", "backend", q.name, "events", len(batch), "error", err)
	}
}

// direct has each request wait.
type direct struct {
	name    string
	backend backend
	mode    Mode
	metrics *auditMetrics
	log     *slog.Logger
}

func (d *direct) strict() bool { return d.mode == BlockingStrict }

func (d *direct) process(e *auditapi.Event) bool {
	if err := d.backend.write(context.Background(), []auditapi.Event{*e}); err != nil {
		d.metrics.lost(d.name, 1)
		d.log.Error("an audit backend did not take an event; it is lost: see whether its file or webhook can be written to", "backend", d.name, "error", err)
		return false
	}
	return true
}

func (d *direct) run(ctx context.Context) error {
	<-ctx.Done()
	return d.backend.close()
}
