package apiserver

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"vigil/apiserver/authn"
)

// connection is what the server knows of one client connection. Its certificate is verified once, with the first request.
type connection struct {
	credentials authn.Connection
	once        sync.Once
	requests    prometheus.Counter         // by the kind of the first request's user
	user        atomic.Pointer[authn.User] // who sent the first request, nil before it; for metrics
	newcomer    *list.Element              // of Server.newcomers until the first request; set before it, nil for a connection that is not the listener's
}

type connectionKey struct{}

// ConnContext returns the context for the requests of a new connection: what they find out about the caller is kept in it.
func (s *Server) ConnContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, new(connection))
}

// connection returns what is known of the connection that a request came by.
func (s *Server) connection(ctx context.Context) *connection {
	if c, ok := ctx.Value(connectionKey{}).(*connection); ok {
		return c
	}
	return new(connection)
}

// count counts a request of a user; nil is one who was refused.
func (c *connection) count(s *Server, user *authn.User) {
	c.once.Do(func() {
		if user == nil {
			user = authn.Anonymous()
		}
		kind := user.Kind()
		if user.Name == authn.NameAnonymous {
			kind = "anonymous"
		}
		c.user.Store(user)
		c.requests = s.metrics.Identity(kind)
		s.newcomers.remove(c.newcomer)
	})
	c.requests.Inc()
}
