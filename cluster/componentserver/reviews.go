package componentserver

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
)

const (
	askFor     = 10 * time.Second // bounds one review
	maxAnswers = 1024             // kept of each kind
)

// tokenReviewer asks the API server whose tokens are.
type tokenReviewer struct {
	client  kubernetes.Interface
	ttl     time.Duration
	answers *cache.LRUExpireCache // SHA-256 of a token to *authn.User, nil for one that nobody knows
}

func newTokenReviewer(client kubernetes.Interface, ttl time.Duration) *tokenReviewer {
	return &tokenReviewer{client: client, ttl: ttl, answers: cache.NewLRUExpireCache(maxAnswers)}
}

// AuthenticateToken implements authn.Token.
func (t *tokenReviewer) AuthenticateToken(ctx context.Context, token string, audiences []string) (*authn.User, []string, error) {
	sum := sha256.Sum256([]byte(token))
	key := fmt.Sprintf("%x %q", sum, audiences)
	if known, ok := t.answers.Get(key); ok {
		if user := known.(*authn.User); user != nil {
			return user, audiences, nil
		}
		return nil, nil, authn.ErrUnknownToken
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	review, err := t.client.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: audiences},
	}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("review token: %w", err)
	case !review.Status.Authenticated:
		t.keep(key, nil)
		if review.Status.Error != "" {
			return nil, nil, errors.New(review.Status.Error)
		}
		return nil, nil, authn.ErrUnknownToken
	}
	from := review.Status.User
	user := &authn.User{Name: from.Username, UID: from.UID, Groups: from.Groups, Extra: map[string][]string{}}
	for name, values := range from.Extra {
		user.Extra[name] = values
	}
	if !slices.Contains(user.Groups, authn.GroupAuthenticated) {
		user.Groups = append(slices.Clone(user.Groups), authn.GroupAuthenticated)
	}
	t.keep(key, user)
	return user, review.Status.Audiences, nil
}

func (t *tokenReviewer) keep(key string, user *authn.User) {
	if t.ttl > 0 {
		t.answers.Add(key, user, t.ttl)
	}
}

// reviewer asks the API server who may.
type reviewer struct {
	client           kubernetes.Interface
	allowed, refused time.Duration         // how long answers are kept
	answers          *cache.LRUExpireCache // a SubjectAccessReviewSpec as JSON to authorizationv1.SubjectAccessReviewStatus
}

func newReviewer(client kubernetes.Interface, allowed, refused time.Duration) *reviewer {
	return &reviewer{client: client, allowed: allowed, refused: refused, answers: cache.NewLRUExpireCache(maxAnswers)}
}

// ask says whether a path may be asked for.
func (r *reviewer) ask(ctx context.Context, a *authz.Attributes) (bool, string, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: a.User.Name, UID: a.User.UID, Groups: a.User.Groups,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: a.Path, Verb: a.Verb},
	}
	if len(a.User.Extra) > 0 {
		spec.Extra = make(map[string]authorizationv1.ExtraValue, len(a.User.Extra))
		for name, values := range a.User.Extra {
			spec.Extra[name] = values
		}
	}
	key, err := json.Marshal(&spec)
	if err != nil {
		return false, "", err
	}
	if known, ok := r.answers.Get(string(key)); ok {
		status := known.(authorizationv1.SubjectAccessReviewStatus)
		return status.Allowed, status.Reason, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	review, err := r.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, "", fmt.Errorf("ask whether %q may %s %s: %w", a.User.Name, a.Verb, a.Path, err)
	}
	ttl := r.refused
	if review.Status.Allowed {
		ttl = r.allowed
	}
	if ttl > 0 && len(key) < 10_000 { // upstream keeps no longer ones either
		r.answers.Add(string(key), review.Status, ttl)
	}
	return review.Status.Allowed, review.Status.Reason, nil
}
