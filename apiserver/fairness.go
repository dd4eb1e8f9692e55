package apiserver

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"vigil/apiserver/flowcontrol"
	"vigil/apiserver/request"
)

// newFairness prepares what decides whose turn it is, nil when nobody has to wait for a turn.
func (s *Server) newFairness() *flowcontrol.Controller {
	reads, writes := s.config.MaxRequestsInflight, s.config.MaxMutatingRequestsInflight
	if !s.config.Fairness || reads < 0 || writes < 0 {
		return nil
	}
	f := flowcontrol.New(flowcontrol.Config{
		Concurrency: reads + writes,
		QueueWait:   flowcontrol.QueueWait(s.requestTimeout),
		Kinds:       s.Kinds,
		Cache:       s.Cache,
		Writer:      s.writer,
		Prefix:      s.prefix,
		Logger:      s.log,
	})
	s.config.StartHooks = append(slices.Clip(s.config.StartHooks),
		StartHook{Name: "priority-and-fairness-config-consumer", Run: func(ctx context.Context, _ *Server) error { return f.WaitSynced(ctx) }},
		StartHook{Name: "priority-and-fairness-config-producer", Run: func(ctx context.Context, _ *Server) error { return f.Ensure(ctx) }})
	return f
}

// inTurn calls serve when it is the request's turn. If it may not be served it has been answered. The request has its seats while it works: what it
// answers is written when it has given them back, so that a client that does not read keeps nobody from working.
func (c *call) inTurn(seats uint64, serve func()) {
	if c.server.fairness == nil {
		if c.admit() {
			func() {
				defer c.place.leave()
				c.rec.keep(&c.server.kept)
				serve()
			}()
			c.rec.release()
		}
		return
	}
	c.place = c.places()
	if flowcontrol.IsExempt(c.user) {
		turn := c.server.fairness.BeginExempt(c.ctx, c.rec.Header())
		defer turn.End()
		c.place.count()
		defer c.place.leave()
		serve()
		return
	}
	served := c.server.fairness.Handle(c.ctx, c.turn(seats), c.rec.Header(), noteNothing, func() {
		c.place.count()
		defer c.place.leave()
		c.rec.keep(&c.server.kept)
		serve()
	})
	c.rec.release()
	if !served {
		c.outOfTurn()
	}
}

// watchInTurn is inTurn for a watch, which is counted until its response begins.
func (c *call) watchInTurn(seats uint64, serve func()) {
	if c.server.fairness == nil {
		serve()
		return
	}
	c.place = c.places()
	if flowcontrol.IsExempt(c.user) {
		turn := c.server.fairness.BeginExempt(c.ctx, c.rec.Header())
		c.place.count()
		c.rec.begun = sync.OnceFunc(func() {
			c.place.leave()
			turn.End()
		})
		defer c.rec.begun()
		serve()
		return
	}
	begun := make(chan struct{})
	c.rec.begun = sync.OnceFunc(func() { close(begun) })
	c.untilOver(seats, begun, c.rec.begun, serve)
}

// listInTurn is inTurn for what may be large: it is written while it is put together, and gives its seats back when the client makes it wait.
func (c *call) listInTurn(seats uint64, serve func()) {
	over := make(chan struct{})
	end := sync.OnceFunc(func() { close(over) })
	switch {
	case c.server.fairness == nil:
		if c.admit() {
			c.rec.stuck = sync.OnceFunc(c.place.leave)
			defer c.rec.stuck()
			serve()
		}
	case flowcontrol.IsExempt(c.user):
		c.inTurn(seats, serve)
	default:
		c.place = c.places()
		c.rec.stuck = end
		c.untilOver(seats, over, end, serve)
	}
}

// untilOver calls serve when it is the request's turn. The turn ends when serve has returned, or sooner: when begun is closed, which end does.
func (c *call) untilOver(seats uint64, begun <-chan struct{}, end func(), serve func()) {
	turn, over := make(chan struct{}), make(chan any, 1)
	go func() {
		defer func() { over <- recover() }()
		c.server.fairness.Handle(c.ctx, c.turn(seats), c.rec.Header(), noteNothing, func() {
			c.place.count()
			defer c.place.leave()
			close(turn)
			<-begun
		})
	}()
	select {
	case <-turn:
		defer func() {
			end()
			<-over // nothing panics but what runs in serve, which is not there
		}()
		serve()
	case p := <-over:
		if p != nil {
			panic(p)
		}
		c.outOfTurn()
	}
}

// turn is what the rules are applied to.
func (c *call) turn(seats uint64) *flowcontrol.Request {
	r := &flowcontrol.Request{User: c.user, Seats: seats}
	i := &r.Info
	i.IsResourceRequest, i.Path, i.Verb = c.info.IsResource(), c.info.Path, c.info.Verb
	i.APIGroup, i.APIVersion, i.Resource, i.Subresource = c.info.Group, c.info.Version, c.info.Resource, c.info.Subresource
	i.Namespace, i.Name = c.info.Namespace, c.info.Name
	return r
}

// outOfTurn is the answer to a request that the rules refuse. Its headers are there.
func (c *call) outOfTurn() {
	c.server.metrics.Dropped(c.place == &c.server.writes)
	http.Error(&c.rec, tooManyText, http.StatusTooManyRequests)
}

// noteNothing is told when a request begins and ends to wait in its queue.
func noteNothing(bool) {}

// seats is how much of the server a request for a resource takes.
func seats(rt *route, info *request.Info, opts *request.ListOptions) uint64 {
	switch {
	case rt == nil || rt.Cache == nil || info.Name != "":
		return 1
	case info.Verb == "list":
	case info.Verb == "watch" && (opts.SendInitialEvents != nil && *opts.SendInitialEvents || opts.ResourceVersion == "" || opts.ResourceVersion == "0"):
	default:
		return 1
	}
	if opts.FieldSelector != nil && slices.ContainsFunc(opts.FieldSelector.Requirements(), func(r fields.Requirement) bool {
		return (r.Operator == selection.Equals || r.Operator == selection.DoubleEquals) && slices.Contains(rt.Kind.Indexes, r.Field)
	}) {
		return 1 // an index leads there
	}
	n := rt.Cache.Len()
	if opts.Limit > 0 {
		n = int(min(int64(n), opts.Limit))
	}
	return flowcontrol.ListSeats(n)
}

// Fairness returns what decides whose turn it is, nil when nothing does.
func (s *Server) Fairness() *flowcontrol.Controller { return s.fairness }
