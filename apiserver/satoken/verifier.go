package satoken

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/authn"
)

// Verifier checks tokens. It is safe for use by many goroutines.
type Verifier struct {
	issuers   []string
	audiences []string
	keys      []publicKey
	objects   Objects
	now       func() time.Time
}

func newVerifier(c *Config, keys []publicKey) *Verifier {
	return &Verifier{issuers: c.Issuers, audiences: c.Audiences, keys: keys, objects: c.Objects, now: c.Now}
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
	if !v.mine(token) {
		return nil, nil, authn.ErrUnknownToken
	}
	parsed, err := jwt.ParseSigned(token, algorithms)
	if err != nil {
		return nil, nil, authn.ErrUnknownToken
	}
	var public jwt.Claims
	var private struct {
		Kubernetes kubernetesClaims `json:"kubernetes.io,omitempty"`
	}
	if err := v.checkSignature(parsed, &public, &private); err != nil {
		return nil, nil, err
	}
	if !slices.Contains(v.issuers, public.Issuer) {
		return nil, nil, fmt.Errorf("token issuer %q is invalid", public.Issuer)
	}
	if audiences == nil {
		audiences = v.audiences
	}
	has := []string(public.Audience)
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
	user, err := v.validate(ctx, &public, &private.Kubernetes)
	if err != nil {
		return nil, nil, err
	}
	return user, good, nil
}

// mine says whether an unchecked token claims to come from one of the issuers.
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
	return json.Unmarshal(payload, &claims) == nil && slices.Contains(v.issuers, claims.Issuer)
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
		if id != "" && id != k.id {
			continue
		}
		err := token.Claims(k.key, claims...)
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
func (v *Verifier) validate(ctx context.Context, public *jwt.Claims, claims *kubernetesClaims) (*authn.User, error) {
	now := v.now()
	switch err := public.Validate(jwt.Expected{Time: now}); {
	case errors.Is(err, jwt.ErrExpired):
		return nil, errors.New("service account token has expired")
	case errors.Is(err, jwt.ErrNotValidYet):
		return nil, errors.New("service account token is not valid yet")
	case errors.Is(err, jwt.ErrIssuedInTheFuture):
		return nil, errors.New("service account token is issued in the future")
	case err != nil:
		return nil, fmt.Errorf("service account token claims could not be validated: %w", err)
	}
	account := claims.ServiceAccount
	if err := v.alive(ctx, serviceAccounts, claims.Namespace, account, "service account UID (%s) does not match claim (%s)"); err != nil {
		if errors.Is(err, errInvalidated) {
			err = fmt.Errorf("service account %s/%s has been deleted", claims.Namespace, account.Name)
		}
		return nil, err
	}
	bound := []struct {
		resource  schema.GroupResource
		namespace string
		ref       *ref
		mismatch  string
	}{
		{secrets, claims.Namespace, claims.Secret, "secret UID (%s) does not match service account secret ref claim (%s)"},
		{pods, claims.Namespace, claims.Pod, "pod UID (%s) does not match service account pod ref claim (%s)"},
		{nodes, "", claims.Node, "node UID (%s) does not match service account node ref claim (%s)"},
	}
	for _, b := range bound {
		// The node of a pod's token is only told, not what the token is bound to.
		if b.ref == nil || b.resource == nodes && claims.Pod != nil {
			continue
		}
		if err := v.alive(ctx, b.resource, b.namespace, *b.ref, b.mismatch); err != nil {
			if isMissing(err) {
				err = errInvalidated
			}
			return nil, err
		}
	}
	return user(public, claims), nil
}

// alive says whether an object is still there, is the same, and was not deleted longer ago than clocks may differ.
func (v *Verifier) alive(ctx context.Context, resource schema.GroupResource, namespace string, want ref, mismatch string) error {
	obj, err := v.objects.Find(ctx, resource, namespace, want.Name)
	if err != nil {
		return &missingError{err}
	}
	if string(obj.GetUID()) != want.UID {
		return fmt.Errorf(mismatch, obj.GetUID(), want.UID)
	}
	if deleted := obj.GetDeletionTimestamp(); deleted != nil && deleted.Time.Before(v.now().Add(-jwt.DefaultLeeway)) {
		return errInvalidated
	}
	return nil
}

// missingError says that an object was not found, or could not be looked for.
type missingError struct{ error }

func (e *missingError) Unwrap() error { return e.error }

func isMissing(err error) bool {
	var missing *missingError
	return errors.As(err, &missing)
}

// Username is the user name of a service account.
func Username(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// Groups are those that all service accounts of a namespace are in.
func Groups(namespace string) []string {
	return []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
}

// user is who a token belongs to.
func user(public *jwt.Claims, claims *kubernetesClaims) *authn.User {
	u := &authn.User{
		Name:   Username(claims.Namespace, claims.ServiceAccount.Name),
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
