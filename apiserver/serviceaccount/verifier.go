package serviceaccount

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/authn"
	"vigil/internal/accounttoken"
)

// Verifier checks tokens. It is safe for use by many goroutines.
type Verifier struct {
	issuers   []string
	audiences []string
	keys      []accounttoken.PublicKey
	objects   Objects
	now       func() time.Time
	lastUsed  func(ctx context.Context, secret *corev1.Secret, day string) bool // nil: nobody wants to know
	metrics   *tokenMetrics
	known     memory
}

func newVerifier(c *Config, keys []accounttoken.PublicKey) *Verifier {
	return &Verifier{issuers: c.Issuers, audiences: c.Audiences, keys: keys, objects: c.Objects, now: c.Now, lastUsed: c.LastUsed, metrics: newTokenMetrics(c.Registerer)}
}

// Audiences are the names of this server.
func (v *Verifier) Audiences() []string { return v.audiences }

// Issuers are who tokens may come from.
func (v *Verifier) Issuers() []string { return v.issuers }

// errInvalidated says that what a token is bound to has gone.
var errInvalidated = errors.New("service account token has been invalidated")

// AuthenticateToken says whose a token is and for which of the audiences asked for (nil: this server's) it is good. It
// fails with authn.ErrUnknownToken when the token is none of this issuer's.
func (v *Verifier) AuthenticateToken(ctx context.Context, token string, audiences []string) (*authn.User, []string, error) {
	key := sha256.Sum256([]byte(token))
	known := v.known.get(key)
	if known == nil {
		var err error
		if known, err = v.verify(token); err != nil {
			return nil, nil, err
		}
		v.known.put(key, known)
	}
	if audiences == nil {
		audiences = v.audiences
	}
	has := []string(known.public.Audience)
	if len(has) == 0 {
		has = v.audiences // tokens from before there were audiences
	}
	var good []string
	for _, a := range has {
		if slices.Contains(audiences, a) {
			good = append(good, a)
		}
	}
	if len(good) == 0 {
		return nil, nil, fmt.Errorf("token audiences %q is invalid for the target audiences %q", has, audiences)
	}
	user := known.user
	var err error
	if known.legacy != nil {
		user, err = known.legacy.validate(ctx, v, token)
	} else if err = v.validate(ctx, known); err == nil {
		user = v.noticeStale(known)
	}
	if err != nil {
		return nil, nil, err
	}
	return user, good, nil
}

// noticeStale counts the use of a good token, and tells the audit when the kubelet should have renewed it and the pod read it again.
func (v *Verifier) noticeStale(known *verified) *authn.User {
	after := known.claims.WarnAfter
	now := v.now()
	if after == nil || !now.After(after.Time()) {
		v.metrics.valid.Inc()
		return known.user
	}
	v.metrics.stale.Inc()
	user := *known.user
	user.Notice = &authn.Notice{
		AuditKey:   "authentication.k8s.io/stale-token",
		AuditValue: fmt.Sprintf("subject: %s, seconds after warning threshold: %.0f", user.Name, now.Sub(after.Time()).Seconds()),
	}
	return &user
}

// verify checks what stays as it is: that a token is one of this issuer's and signed by it.
func (v *Verifier) verify(token string) (*verified, error) {
	if !v.mine(token) {
		return nil, authn.ErrUnknownToken
	}
	parsed, err := jwt.ParseSigned(token, accounttoken.Algorithms)
	if err != nil {
		return nil, authn.ErrUnknownToken
	}
	known := new(verified)
	var private struct {
		Kubernetes kubernetesClaims `json:"kubernetes.io,omitempty"`
		accounttoken.LegacyClaims
	}
	if err := v.checkSignature(parsed, &known.public, &private); err != nil {
		return nil, err
	}
	switch {
	case slices.Contains(v.issuers, known.public.Issuer):
	case known.public.Issuer == accounttoken.LegacyIssuer:
		known.legacy, err = newLegacy(&known.public, private.LegacyClaims)
		return known, err
	default:
		return nil, fmt.Errorf("token issuer %q is invalid", known.public.Issuer)
	}
	known.claims = private.Kubernetes
	known.user = user(&known.public, &known.claims)
	return known, nil
}

// mine says whether an unchecked token claims to come from one of the issuers, or out of a Secret.
func (v *Verifier) mine(token string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return false
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	return json.Unmarshal(payload, &claims) == nil && (claims.Issuer == accounttoken.LegacyIssuer || slices.Contains(v.issuers, claims.Issuer))
}

// checkSignature tries the key that the token names, all keys when it names none.
func (v *Verifier) checkSignature(token *jwt.JSONWebToken, claims ...any) error {
	id := ""
	for _, h := range token.Headers {
		if h.KeyID != "" {
			id = h.KeyID
			break
		}
	}
	var errs []error
	for _, k := range v.keys {
		if id != "" && id != k.ID {
			continue
		}
		err := token.Claims(k.Key, claims...)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return errors.New("invalid signature, no keys found")
	}
	return errors.Join(errs...)
}

// validate checks times and the objects that a token is bound to.
func (v *Verifier) validate(ctx context.Context, known *verified) error {
	now := v.now()
	switch err := known.public.Validate(jwt.Expected{Time: now}); {
	case errors.Is(err, jwt.ErrExpired):
		return errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return errors.New("service account token is issued in the future")
	case err != nil:
		return fmt.Errorf("service account token claims could not be validated: %w", err)
	}
	claims := &known.claims
	account := &claims.ServiceAccount
	bound := [len(known.seen)]struct {
		resource  schema.GroupResource
		namespace string
		ref       *ref
		mismatch  string
	}{
		{serviceAccounts, claims.Namespace, account, "service account UID (%s) does not match claim (%s)"},
		{secrets, claims.Namespace, claims.Secret, "secret UID (%s) does not match service account secret ref claim (%s)"},
		{pods, claims.Namespace, claims.Pod, "pod UID (%s) does not match service account pod ref claim (%s)"},
		{nodes, "", claims.Node, "node UID (%s) does not match service account node ref claim (%s)"},
	}
	for i := range bound {
		b := &bound[i]
		// The node of a pod's token is only told, not what the token is bound to.
		if b.ref == nil || b.resource == nodes && claims.Pod != nil {
			continue
		}
		newest := v.objects.Newest(b.resource, b.namespace, b.ref.Name)
		if seen, ok := known.seen[i].Load().(version); ok && newest != nil && seen.is == newest {
			continue
		}
		stays, err := v.alive(ctx, b.resource, b.namespace, *b.ref, b.mismatch)
		switch {
		case err == nil && stays && newest != nil:
			known.seen[i].Store(version{newest})
		case err == nil:
		case b.ref == account && errors.Is(err, errInvalidated):
			return fmt.Errorf("service account %s/%s has been deleted", claims.Namespace, account.Name)
		case b.ref != account && isMissing(err):
			return errInvalidated
		default:
			return err
		}
	}
	return nil
}

// alive says whether an object is still there, is the same, and was not deleted longer ago than clocks may differ. stays says that
// this version of it will never be anything else; one that is being deleted will.
func (v *Verifier) alive(ctx context.Context, resource schema.GroupResource, namespace string, want ref, mismatch string) (stays bool, err error) {
	obj, err := v.objects.Find(ctx, resource, namespace, want.Name)
	if err != nil {
		return false, &missingError{err}
	}
	if string(obj.GetUID()) != want.UID {
		return false, fmt.Errorf(mismatch, obj.GetUID(), want.UID)
	}
	deleted := obj.GetDeletionTimestamp()
	if deleted != nil && deleted.Time.Before(v.now().Add(-jwt.DefaultLeeway)) {
		return false, errInvalidated
	}
	return deleted == nil, nil
}

// missingError says that an object was not found, or could not be looked for.
type missingError struct{ error }

func (e *missingError) Unwrap() error { return e.error }

func isMissing(err error) bool {
	var missing *missingError
	return errors.As(err, &missing)
}

// Groups are those that all service accounts of a namespace are in.
func Groups(namespace string) []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
}

// user is who a token belongs to.
func user(public *jwt.Claims, claims *kubernetesClaims) *authn.User {
	u := &authn.User{
		Name:   accounttoken.Username(claims.Namespace, claims.ServiceAccount.Name),
		UID:    claims.ServiceAccount.UID,
		Groups: append(Groups(claims.Namespace), authn.GroupAuthenticated),
	}
	extra := func(key, value string) {
		if value == "" {
			return
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = []string{value}
	}
	if public.ID != "" {
		extra(extraCredentialID, "JTI="+public.ID)
	}
	if p := claims.Pod; p != nil {
		extra(extraPodName, p.Name)
		extra(extraPodUID, p.UID)
	}
	if n := claims.Node; n != nil {
		extra(extraNodeName, n.Name)
		extra(extraNodeUID, n.UID)
	}
	return u
}
