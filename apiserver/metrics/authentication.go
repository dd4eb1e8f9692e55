package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Authentication counts who was let in and who was not. User names are summed up to a closed set, as upstream's.
type Authentication struct {
	success, failure, errors prometheus.Counter
	known                    map[string]prometheus.Counter // by user name
	email, other             prometheus.Counter
}

// NewAuthentication registers the counters.
func NewAuthentication(reg prometheus.Registerer) *Authentication {
	users := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "authenticated_user_requests",
		Help: "Authenticated requests by user name."}, []string{"username"})
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "authentication_attempts",
		Help: "Attempts at authentication: success, failure (nothing was shown), error (what was shown was refused)."}, []string{"result"})
	reg.MustRegister(users, attempts)
	a := &Authentication{
		success: attempts.WithLabelValues("success"), failure: attempts.WithLabelValues("failure"), errors: attempts.WithLabelValues("error"),
		known: map[string]prometheus.Counter{}, email: users.WithLabelValues("email_id"), other: users.WithLabelValues("other"),
	}
	for _, name := range []string{"admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"} {
		a.known[name] = users.WithLabelValues(name)
	}
	return a
}

// Success counts a request of a user.
func (a *Authentication) Success(user string) {
	a.success.Inc()
	counter := a.known[user]
	switch {
	case counter != nil:
	case strings.Contains(user, "@"):
		counter = a.email
	default:
		counter = a.other
	}
	counter.Inc()
}

// Failure counts a request that showed nothing, or something that was refused.
func (a *Authentication) Failure(refused bool) {
	if refused {
		a.errors.Inc()
	} else {
		a.failure.Inc()
	}
}
