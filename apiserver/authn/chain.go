package authn

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"vigil/pki"
)

// Config says by what callers may prove who they are. The names are those of kube-apiserver's flags.
type Config struct {
	// ClientCAFile holds the authorities that sign client certificates, PEM (--client-ca-file). Read again when it changes.
	ClientCAFile string
	// ClientCA holds them instead when there is no file; nil: there are none.
	ClientCA *pki.Bundle
	// Proxy says who may speak for others (--requestheader-*). Its CAFile is read again when it changes; ProxyCA holds the authorities
	// instead when there is no file.
	Proxy   Proxy
	ProxyCA *pki.Bundle
	// Tokens know bearer tokens; the first that knows one answers.
	Tokens []Token
	// Anonymous says which requests without credentials are let in (--anonymous-auth, AuthenticationConfiguration.anonymous).
	// It may change at any time; nil: all.
	Anonymous *AnonymousRule
	// Log hears of files read again. Nil discards.
	Log *slog.Logger
}

// Chain authenticates requests, by what upstream's does and in its order: the headers of a front proxy, a client certificate,
// a bearer token. Whoever shows nothing is anonymous; whoever shows only what is refused is nobody.
type Chain struct {
	client    *pki.Bundle // nil: no client certificates
	proxyCA   *pki.Bundle // nil: no front proxy
	proxy     Proxy
	tokens    []Token
	anonymous *AnonymousRule
	now       func() time.Time
}

// New reads the authorities.
func New(config Config) (*Chain, error) {
	c := &Chain{proxy: config.Proxy.canonical(), client: config.ClientCA, proxyCA: config.ProxyCA, tokens: config.Tokens, anonymous: config.Anonymous, now: time.Now}
	if c.anonymous == nil {
		c.anonymous = new(AnonymousRule)
	}
	var err error
	if config.ClientCAFile != "" {
		if c.client, err = pki.NewBundle(config.ClientCAFile, config.Log); err != nil {
			return nil, err
		}
	}
	if config.Proxy.CAFile != "" {
		if c.proxyCA, err = pki.NewBundle(config.Proxy.CAFile, config.Log); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Chain) clientCAs() *x509.CertPool {
	if c.client == nil {
		return nil
	}
	return c.client.Pool()
}

func (c *Chain) proxyCAs() *x509.CertPool {
	if c.proxyCA == nil {
		return nil
	}
	return c.proxyCA.Pool()
}

// ClientCAs are the authorities whose certificates clients may show, for the names in a TLS handshake. Nil when there are none.
func (c *Chain) ClientCAs() *x509.CertPool { return c.clientCAs() }

// ClientCA and ProxyCA are the files of authorities, for those that tell others of them. Nil when there are none.
func (c *Chain) ClientCA() *pki.Bundle { return c.client }

// ProxyCA is the authority of front proxies.
func (c *Chain) ProxyCA() *pki.Bundle { return c.proxyCA }

// Authenticate says who sent a request over conn, at the time now. What proved it is taken out of the headers. The error says
// what was refused, or is ErrNoCredentials when nothing was shown and the request may not be anonymous. The user is
// shared: do not change it.
func (c *Chain) Authenticate(r *http.Request, conn *Connection, now time.Time) (*User, error) {
	var refused error
	if cert := c.certificate(conn, r.TLS); cert != nil {
		expired := now.After(cert.notAfter)
		if cert.isProxy && !expired {
			if user := c.proxy.user(r.Header); user != nil {
				return user, nil
			}
		}
		switch {
		case cert.err != nil:
			refused = cert.err
		case cert.user != nil && expired:
			refused = errExpired
		case cert.user != nil:
			return cert.user, nil
		}
	}
	if len(c.tokens) > 0 {
		user, err := c.bearer(r)
		if user != nil {
			return user, nil
		}
		refused = errors.Join(refused, err)
	}
	if refused != nil {
		return nil, refused
	}
	if !c.anonymous.allows(r.URL.Path) {
		return nil, ErrNoCredentials
	}
	return Anonymous(), nil
}

// bearer says whose token a request carries: in the header Authorization or, as browsers cannot set that for WebSockets, among the
// protocols of one. Both nil when there is none.
func (c *Chain) bearer(r *http.Request) (*User, error) {
	if token := Bearer(r); token != "" {
		user, _, err := c.AuthenticateToken(r.Context(), token, nil)
		if err == nil {
			r.Header.Del("Authorization")
		}
		return user, err
	}
	token, rest, err := webSocketToken(r)
	if token == "" {
		return nil, err
	}
	user, _, err := c.AuthenticateToken(r.Context(), token, nil)
	if err == nil {
		r.Header["Sec-Websocket-Protocol"] = []string{rest}
	}
	return user, err
}

// AuthenticateToken implements [Token] for all tokens of the chain.
func (c *Chain) AuthenticateToken(ctx context.Context, token string, audiences []string) (*User, []string, error) {
	var errs []error
	for _, t := range c.tokens {
		user, good, err := t.AuthenticateToken(ctx, token, audiences)
		if err == nil {
			return user, good, nil
		}
		if !errors.Is(err, ErrUnknownToken) {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil, nil, ErrUnknownToken
	}
	return nil, nil, errors.Join(errs...)
}

// AnonymousRule says which requests may come without credentials. The zero value lets all in. It may be changed while in use.
type AnonymousRule struct {
	paths atomic.Pointer[[]string]
	off   atomic.Bool
}

// Set lets in those for the paths, all when there are none, or nobody.
func (a *AnonymousRule) Set(enabled bool, paths []string) {
	if len(paths) == 0 {
		a.paths.Store(nil)
	} else {
		a.paths.Store(&paths)
	}
	a.off.Store(!enabled)
}

func (a *AnonymousRule) allows(path string) bool {
	if a.off.Load() {
		return false
	}
	paths := a.paths.Load()
	return paths == nil || slices.Contains(*paths, path)
}
