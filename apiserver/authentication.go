package apiserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/authn"
	"vigil/apiserver/authn/external"
	"vigil/apiserver/impersonation"
	"vigil/apiserver/metrics"
	"vigil/apiserver/respond"
	"vigil/h2"
)

// Authentication says by what callers may prove who they are, besides the client CA and service account tokens. The names are
// those of kube-apiserver's flags. The zero value adds nothing and lets anonymous requests in.
type Authentication struct {
	Proxy           authn.Proxy     // --requestheader-*
	TokenFile       string          // --token-auth-file
	BootstrapTokens bool            // --enable-bootstrap-token-auth
	NoAnonymous     bool            // --anonymous-auth=false
	External        external.Config // --oidc-*, --authentication-config, --authentication-token-webhook-*
}

// makeAuthentication puts the chain together, in upstream's order: what is known here before what others are asked about.
func (s *Server) makeAuthentication() error {
	s.attempts = metrics.NewAuthentication(s.config.Registerer)
	config := s.config.Authentication
	audiences := s.tokens.Verifier.Audiences()
	var tokens []authn.Token
	if config.TokenFile != "" {
		file, err := authn.NewTokenFile(config.TokenFile, audiences)
		if err != nil {
			return err
		}
		tokens = append(tokens, file)
	}
	tokens = append(tokens, s.tokens.Verifier)
	if config.BootstrapTokens {
		s.unknownTokens = rate.NewLimiter(unknownTokenReads, unknownTokenBurst)
		tokens = append(tokens, &authn.BootstrapTokens{Secret: s.systemSecret, Audiences: audiences})
	}
	s.anonymous.Set(!config.NoAnonymous, nil)
	if config.External.Enabled() {
		config.External.Audiences = audiences
		config.External.Issuers = s.tokens.Verifier.Issuers()
		config.External.Anonymous = s.anonymous.Set
		config.External.Logger = s.log
		var err error
		if s.external, err = external.New(config.External); err != nil {
			return err
		}
		tokens = append(tokens, s.external)
	}
	var err error
	s.authn, err = authn.New(authn.Config{
		ClientCAFile: s.config.ClientCAFile, Proxy: config.Proxy, Tokens: tokens, Anonymous: &s.anonymous, Log: s.log,
	})
	return err
}

// Tokens whose Secret the cache does not have may be too new for it, so etcd is asked; but anybody can make up tokens, so it is asked so many times a
// second, after so many at once. A token that is refused for that is in the cache when its client tries again.
const (
	unknownTokenReads = 5
	unknownTokenBurst = 10
)

// systemSecret finds a Secret of namespace kube-system.
func (s *Server) systemSecret(ctx context.Context, name string) (*corev1.Secret, error) {
	secrets := schema.GroupResource{Resource: "secrets"}
	o := objects{s}
	if o.Newest(secrets, authn.BootstrapNamespace, name) == nil && !s.unknownTokens.Allow() {
		return nil, apierrors.NewNotFound(secrets, name)
	}
	obj, err := o.Find(ctx, secrets, authn.BootstrapNamespace, name)
	if err != nil {
		return nil, err
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return nil, fmt.Errorf("secret %s is a %T", name, obj)
	}
	return secret, nil
}

// Authenticator is what finds out who is calling.
func (s *Server) Authenticator() *authn.Chain { return s.authn }

// authenticate finds out who is calling.
func (c *call) authenticate(now time.Time) error {
	conn := c.server.connection(c.req.Context())
	var err error
	c.user, err = c.server.authn.Authenticate(c.req, &conn.credentials, now)
	conn.count(c.server, c.user)
	if err != nil {
		c.server.attempts.Failure(!errors.Is(err, authn.ErrNoCredentials))
		return err
	}
	c.server.attempts.Success(c.user.Name)
	if c.user.Name != authn.NameAnonymous {
		h2.Vouch(c.rec.ResponseWriter)
	}
	if c.notice = c.user.Notice; c.notice != nil && c.notice.Warning != "" {
		respond.Warning(&c.rec, []string{c.notice.Warning})
	}
	return nil
}

// impersonate lets the caller be whom it asks to be. If it may not, it has been answered.
func (c *call) impersonate() bool {
	wanted, err := impersonation.Wanted(c.req.Header)
	if err != nil {
		c.fail(err)
		return false
	}
	if wanted == nil {
		return true
	}
	c.describe()
	user, constraint, err := impersonation.Check(c.ctx, c.server.authz, &c.attr, wanted)
	if err != nil {
		c.rec.Header().Set("X-Content-Type-Options", "nosniff")
		c.fail(err)
		return false
	}
	c.impersonator, c.constraint, c.user = c.user, constraint, user
	return true
}
