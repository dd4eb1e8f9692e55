package apiserver

import (
	"context"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"vigil/apiserver/authn"
)

// connection is what the server knows of one client connection. The certificate is verified once, with the first request,
// and the identity stays with the connection.
type connection struct {
	once     sync.Once
	identity *authn.Identity
	err      error // why there is no identity
	requests prometheus.Counter
	user     atomic.Pointer[authn.User] // nil before the first request; for metrics
}

type connectionKey struct{}

// ConnContext returns the context for the requests of a new connection: what they find out about the caller is kept in it.
func (s *Server) ConnContext(ctx context.Context) context.Context {
	return context.WithValue(ctx, connectionKey{}, new(connection))
}

// caller returns who sent a request. The error says why nobody is known; it is authn.ErrNoCredentials when there was no
// certificate.
func (s *Server) caller(ctx context.Context, state *tls.ConnectionState) (*connection, error) {
	c, ok := ctx.Value(connectionKey{}).(*connection)
	if !ok {
		c = new(connection)
	}
	c.once.Do(func() {
		c.identity, c.err = s.authn.Authenticate(state)
		kind, user := "anonymous", authn.Anonymous()
		if c.err == nil {
			kind, user = c.identity.User.Kind(), c.identity.User
		}
		c.user.Store(user)
		c.requests = s.metrics.Identity(kind)
	})
	if c.err != nil {
		return c, c.err
	}
	if time.Now().After(c.identity.NotAfter) {
		return c, errExpired
	}
	return c, nil
}
