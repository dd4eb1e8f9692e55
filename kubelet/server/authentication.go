package server

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"

	"vigil/pki"
)

const (
	tokenTTL  = 2 * time.Minute // --authentication-token-webhook-cache-ttl
	maxTokens = 4096            // whose answer is kept
	askFor    = 10 * time.Second

	unknownTTL = 10 * time.Second // of tokens that nobody knows
)

var errUnknownToken = errors.New("token is not known")

// authenticator finds out who is calling: by a client certificate, by a token.
type authenticator struct {
	clientCA  *pki.Bundle
	client    kubernetes.Interface
	anonymous bool
	noTokens  bool
	tokens    *cache.LRUExpireCache // SHA-256 of the token to *authenticationv1.UserInfo, nil for one that nobody knows
}

func newAuthenticator(clientCA *pki.Bundle, client kubernetes.Interface, anonymous, noTokens bool) *authenticator {
	return &authenticator{clientCA: clientCA, client: client, anonymous: anonymous, noTokens: noTokens, tokens: cache.NewLRUExpireCache(maxTokens)}
}

// authenticate says who sent a request, nil when nobody knows. The error says why, and is not for the caller.
func (a *authenticator) authenticate(r *http.Request) (*authenticationv1.UserInfo, error) {
	var refused error
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		user, err := a.certificate(r.TLS.PeerCertificates)
		if err == nil {
			return user, nil
		}
		refused = err
	}
	if token := bearer(r); token != "" && !a.noTokens {
		user, err := a.token(r.Context(), token)
		if user != nil {
			r.Header.Del("Authorization")
			return user, nil
		}
		refused = errors.Join(refused, err)
	}
	if refused != nil || !a.anonymous {
		return nil, refused
	}
	return &authenticationv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}, nil
}

// certificate says whose certificate it is that came first in chain.
func (a *authenticator) certificate(chain []*x509.Certificate) (*authenticationv1.UserInfo, error) {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: a.clientCA.Pool(), Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return nil, fmt.Errorf("verify client certificate of %q: %w", chain[0].Subject.CommonName, err)
	}
	subject := chain[0].Subject
	if subject.CommonName == "" {
		return nil, errors.New("client certificate without a common name")
	}
	return &authenticationv1.UserInfo{Username: subject.CommonName, Groups: authenticated(subject.Organization)}, nil
}

// token asks the API server whose token it is.
func (a *authenticator) token(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	key := sha256.Sum256([]byte(token))
	if known, ok := a.tokens.Get(key); ok {
		if user := known.(*authenticationv1.UserInfo); user != nil {
			return user, nil
		}
		return nil, errUnknownToken
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	review, err := a.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("review token: %w", err)
	case !review.Status.Authenticated:
		a.tokens.Add(key, (*authenticationv1.UserInfo)(nil), unknownTTL)
		return nil, fmt.Errorf("%w: %s", errUnknownToken, review.Status.Error)
	}
	user := &review.Status.User
	user.Groups = authenticated(user.Groups)
	a.tokens.Add(key, user, tokenTTL)
	return user, nil
}

// authenticated adds the group of everybody who is known.
func authenticated(groups []string) []string {
	const all = "system:authenticated"
	out := make([]string, 0, len(groups)+1)
	for _, g := range groups {
		if g == all {
			return groups
		}
		out = append(out, g)
	}
	return append(out, all)
}

// bearer is the token in the header, "" when there is none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
