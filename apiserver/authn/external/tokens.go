package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authentication/token/union"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
	webhooktoken "k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"

	"vigil/apiserver/authn"
)

const (
	// jwtTTL is how long a token that was good stays so without being checked again, as upstream's.
	jwtTTL = 10 * time.Second
	// lookEvery is how often File is looked at.
	lookEvery = 5 * time.Second
	// settleTimeout bounds how long new issuers may take until they answer; then they are used all the same.
	settleTimeout = 30 * time.Second

	defaultWebhookTTL = 2 * time.Minute
)

// Tokens knows the tokens of others. It is safe for use by many goroutines.
type Tokens struct {
	config  Config
	first   *issuers
	data    []byte                     // what File held at first
	webhook authenticator.Token        // nil: none
	jwt     atomic.Pointer[generation] // nil before Run
}

// generation is the authenticators of one version of the issuers.
type generation struct {
	token authenticator.Token
	all   []oidc.AuthenticatorTokenWithHealthCheck
	stop  context.CancelFunc
}

// New checks the configuration. It asks nobody yet.
func New(config Config) (*Tokens, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Tokens{config: config}
	var err error
	if config.File != "" {
		if t.data, err = os.ReadFile(config.File); err != nil {
			return nil, fmt.Errorf("read authentication configuration: %w", err)
		}
	}
	if t.first, err = config.load(t.data); err != nil {
		return nil, fmt.Errorf("authentication configuration: %w", err)
	}
	config.anonymous(t.first)
	if config.WebhookFile == "" {
		return t, nil
	}
	client, err := webhook.LoadKubeconfig(config.WebhookFile, nil)
	if err != nil {
		return nil, fmt.Errorf("authentication webhook: %w", err)
	}
	version, ttl := config.WebhookVersion, config.WebhookCacheTTL
	if version == "" {
		version = "v1beta1"
	}
	if ttl == 0 {
		ttl = defaultWebhookTTL
	}
	hook, err := webhooktoken.New(client, version, config.Audiences, *webhooktoken.DefaultRetryBackoff())
	if err != nil {
		return nil, fmt.Errorf("authentication webhook: %w", err)
	}
	t.webhook = cache.New(hook, false, ttl, ttl)
	return t, nil
}

// Run keeps in touch with the issuers and follows File until ctx ends.
func (t *Tokens) Run(ctx context.Context) error {
	defer func() {
		if old := t.jwt.Load(); old != nil {
			old.stop()
		}
	}()
	now, err := t.start(ctx, t.first)
	if err != nil {
		return fmt.Errorf("start token authentication: %w", err)
	}
	t.jwt.Store(now)
	if t.config.File == "" {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	data := t.data
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		fresh, err := os.ReadFile(t.config.File)
		if err == nil && bytes.Equal(fresh, data) {
			continue
		}
		if err == nil {
			data = fresh
			err = t.change(ctx, fresh)
		}
		if err != nil {
			t.config.Logger.Warn("the API server cannot use the changed authentication configuration; the one before stays in force until the file is mended", "file", t.config.File, "error", err)
		}
	}
}

// change goes over to new issuers, once they answer.
func (t *Tokens) change(ctx context.Context, data []byte) error {
	loaded, err := t.config.load(data)
	if err != nil {
		return err
	}
	next, err := t.start(ctx, loaded)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	next.settle(ctx)
	old := t.jwt.Swap(next)
	old.stop()
	t.config.anonymous(loaded)
	t.config.Logger.Info("the API server has taken over the changed authentication configuration", "file", t.config.File)
	return nil
}

// settle waits until all issuers have answered.
func (g *generation) settle(ctx context.Context) {
	for _, a := range g.all {
		for a.HealthCheck() != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// start makes the authenticators of a version. They end with ctx or when stopped.
func (t *Tokens) start(ctx context.Context, v *issuers) (*generation, error) {
	ctx, cancel := context.WithCancel(ctx)
	g := &generation{stop: cancel}
	var tokens []authenticator.Token
	for _, jwt := range v.config.JWT {
		var ca oidc.CAContentProvider
		if pem := jwt.Issuer.CertificateAuthority; pem != "" {
			ca = authority(pem)
		}
		a, err := oidc.New(ctx, oidc.Options{
			JWTAuthenticator: jwt, CAContentProvider: ca, SupportedSigningAlgs: v.algs, DisallowedIssuers: t.config.Issuers,
		})
		if err != nil {
			cancel()
			return nil, err
		}
		g.all = append(g.all, a)
		tokens = append(tokens, authenticator.WrapAudienceAgnosticToken(t.config.Audiences, a))
	}
	g.token = cache.New(union.New(tokens...), true, jwtTTL, 0)
	return g, nil
}

// authority is the certificates that an issuer is known by.
type authority string

// CurrentCABundleContent is an oidc.CAContentProvider's.
func (a authority) CurrentCABundleContent() []byte { return []byte(a) }

// AuthenticateToken implements authn.Token.
func (t *Tokens) AuthenticateToken(ctx context.Context, token string, audiences []string) (*authn.User, []string, error) {
	if audiences == nil {
		audiences = t.config.Audiences
	}
	ctx = authenticator.WithAudiences(ctx, audiences)
	var all []authenticator.Token
	if g := t.jwt.Load(); g != nil {
		all = append(all, g.token)
	}
	if t.webhook != nil {
		all = append(all, t.webhook)
	}
	var errs []error
	for _, a := range all {
		response, ok, err := a.AuthenticateToken(ctx, token)
		if err != nil {
			errs = append(errs, err)
		}
		if ok && err == nil {
			return user(response), response.Audiences, nil
		}
	}
	if len(errs) > 0 {
		return nil, nil, errors.Join(errs...)
	}
	return nil, nil, authn.ErrUnknownToken
}

// user is who a response names, in our words.
func user(r *authenticator.Response) *authn.User {
	return &authn.User{
		Name: r.User.GetName(), UID: r.User.GetUID(), Groups: authn.WithAuthenticated(r.User.GetGroups()), Extra: r.User.GetExtra(),
	}
}
