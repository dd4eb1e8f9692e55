package componentserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/respond"
	"vigil/pki"
)

// Access says who may ask. The names are those of upstream's flags; the zero value lets everybody see health, and nobody anything else.
type Access struct {
	ClientCAFile string      // --client-ca-file
	Proxy        authn.Proxy // --requestheader-*

	// AuthenticationKubeconfig names the API server that knows tokens, and the cluster's authorities where none are given here.
	// "": tokens are not looked at, and authorities not looked up.
	AuthenticationKubeconfig string
	SkipLookup               bool          // --authentication-skip-lookup: of authorities
	TolerateLookupFailure    bool          // --authentication-tolerate-lookup-failure
	TokenTTL                 time.Duration // --authentication-token-webhook-cache-ttl; 0: not kept

	// AuthorizationKubeconfig names the API server that says who may. "": only members of system:masters may.
	AuthorizationKubeconfig string
	AllowedTTL, RefusedTTL  time.Duration // --authorization-webhook-cache-authorized-ttl, -unauthorized-ttl
	// AlwaysAllowPaths may be read by everybody (--authorization-always-allow-paths); one that ends in * stands for all that begin so.
	// Nil: those of health.
	AlwaysAllowPaths []string
}

// DefaultTTL is how long upstream keeps answers of reviews unless something else is said.
const DefaultTTL = 10 * time.Second

// healthPaths are for everybody unless something else is said.
var healthPaths = []string{"/healthz", "/readyz", "/livez"}

// door lets requests in.
type door struct {
	who    *callers
	review *reviewer // nil: nobody is asked
	open   []string
	log    *slog.Logger
}

// open reads the files, and looks up the authorities unless all are given.
func (a Access) open(ctx context.Context, log *slog.Logger) (*door, error) {
	d := &door{open: a.AlwaysAllowPaths, log: log}
	if d.open == nil {
		d.open = healthPaths
	}
	var err error
	if d.who, err = newCallers(ctx, a, log); err != nil {
		return nil, err
	}
	if a.AuthorizationKubeconfig != "" {
		client, err := clientOf(a.AuthorizationKubeconfig, log)
		if err != nil {
			return nil, fmt.Errorf("--authorization-kubeconfig: %w", err)
		}
		d.review = newReviewer(client, a.AllowedTTL, a.RefusedTTL)
	}
	return d, nil
}

// clientOf is a client for reviews and lookups.
func clientOf(kubeconfig string, log *slog.Logger) (kubernetes.Interface, error) {
	config, err := pki.ClientConfig(kubeconfig, log)
	if err != nil {
		return nil, err
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	return kubernetes.NewForConfig(config)
}

type connectionKey struct{}

// withConnection gives each connection what package authn remembers of it.
func withConnection(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, new(authn.Connection))
}

// guard serves requests that may be served.
func (d *door) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := d.who.authenticate(r)
		if err != nil {
			d.log.Debug("the component refused a request without valid credentials", "error", err, "remote", r.RemoteAddr)
			respond.Error(w, r, apierrors.NewUnauthorized("Unauthorized"))
			return
		}
		if err := d.authorize(r, user); err != nil {
			respond.Error(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// authorize fails with the Status of a refusal.
func (d *door) authorize(r *http.Request, user *authn.User) error {
	attributes := &authz.Attributes{User: user, Verb: strings.ToLower(r.Method), Path: r.URL.Path}
	allowed, reason, err := user.InGroup(authn.GroupMasters) || d.isOpen(r.URL.Path), "", error(nil)
	if !allowed && d.review != nil {
		allowed, reason, err = d.review.ask(r.Context(), attributes)
	}
	switch {
	case err != nil:
		d.log.Warn("the component could not find out whether a request is allowed; it refuses it", "path", r.URL.Path, "user", user.Name, "error", err)
		return authz.Undecided(err)
	case !allowed:
		return authz.Forbidden(attributes, reason)
	}
	return nil
}

// isOpen says whether a path is for everybody.
func (d *door) isOpen(path string) bool {
	return slices.ContainsFunc(d.open, func(open string) bool {
		open = "/" + strings.TrimPrefix(open, "/")
		if prefix, many := strings.CutSuffix(open, "*"); many {
			return strings.HasPrefix(path, prefix)
		}
		return path == open
	})
}
