package serviceaccount

import (
	"context"
	"crypto"
	"fmt"
	"slices"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/apiserver/write"
	"vigil/internal/accounttoken"
	"vigil/kinds"
)

// Issuer makes tokens.
type Issuer struct {
	name          string
	signer        jose.Signer
	audiences     []string
	extend        bool
	maxExpiration time.Duration
	objects       Objects
	now           func() time.Time
}

func newIssuer(c *Config, key crypto.Signer) (*Issuer, error) {
	signer, err := accounttoken.NewSigner(key)
	if err != nil {
		return nil, err
	}
	return &Issuer{
		name: c.Issuers[0], signer: signer, audiences: c.Audiences, extend: !c.NoExtension, maxExpiration: c.MaxExpiration,
		objects: c.Objects, now: c.Now,
	}, nil
}

var tokenRequest = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// Post answers a TokenRequest for a service account; it is a write.PostFunc for the subresource token.
func (i *Issuer) Post(ctx context.Context, r *write.Request, obj kinds.Object, body runtime.Object) (runtime.Object, error) {
	account, request := obj.(*corev1.ServiceAccount), body.(*authenticationv1.TokenRequest)
	if request.Name != "" && request.Name != account.Name {
		return nil, apierrors.NewInvalid(tokenRequest.GroupKind(), account.Name, field.ErrorList{
			field.Invalid(field.NewPath("metadata", "name"), request.Name, "must match the service account name if specified"),
		})
	}
	if request.UID != "" && request.UID != account.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: tokenRequest.Group, Resource: tokenRequest.Kind}, account.Name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", request.UID, account.UID))
	}
	if len(request.Spec.Audiences) == 0 {
		request.Spec.Audiences = i.audiences
	}
	bound, err := i.bind(ctx, account, request.Spec.BoundObjectRef)
	if err != nil {
		return nil, err
	}
	seconds := *request.Spec.ExpirationSeconds
	if limit := int64(i.maxExpiration.Seconds()); limit > 0 && seconds > limit {
		r.Warn(fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", seconds, limit))
		seconds = limit
		request.Spec.ExpirationSeconds = &seconds
	}

	now := i.now()
	life := seconds
	claims := privateClaims{Kubernetes: bound, Audience: request.Spec.Audiences}
	if i.extend && bound.Pod != nil && seconds == extendedRequestSeconds && subset(request.Spec.Audiences, i.audiences) {
		claims.Kubernetes.WarnAfter = jwt.NewNumericDate(now.Add(time.Duration(seconds) * time.Second))
		life = extendedSeconds
	}
	token, err := jwt.Signed(i.signer).Claims(&claims).Claims(&jwt.Claims{
		Issuer:    i.name,
		Subject:   accounttoken.Username(account.Namespace, account.Name),
		IssuedAt:  jwt.NewNumericDate(now),
		NotBefore: jwt.NewNumericDate(now),
		Expiry:    jwt.NewNumericDate(now.Add(time.Duration(life) * time.Second)),
		ID:        uuid.NewString(),
	}).Serialize()
	if err != nil {
		return nil, fmt.Errorf("failed to generate token: %w", err)
	}
	request.Name, request.Namespace, request.UID = account.Name, account.Namespace, account.UID
	request.CreationTimestamp = metav1.NewTime(now)
	request.Status = authenticationv1.TokenRequestStatus{
		Token:               token,
		ExpirationTimestamp: metav1.NewTime(now.Add(time.Duration(seconds) * time.Second)),
	}
	return request, nil
}

var (
	pods            = schema.GroupResource{Resource: "pods"}
	nodes           = schema.GroupResource{Resource: "nodes"}
	secrets         = schema.GroupResource{Resource: "secrets"}
	serviceAccounts = schema.GroupResource{Resource: "serviceaccounts"}
)

// bind finds what a token is to be bound to.
func (i *Issuer) bind(ctx context.Context, account *corev1.ServiceAccount, to *authenticationv1.BoundObjectReference) (kubernetesClaims, error) {
	claims := kubernetesClaims{Namespace: account.Namespace, ServiceAccount: ref{account.Name, string(account.UID)}}
	if to == nil {
		return claims, nil
	}
	gvk := schema.FromAPIVersionAndKind(to.APIVersion, to.Kind)
	var uid types.UID
	switch gvk.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		obj, err := i.objects.Find(ctx, pods, account.Namespace, to.Name)
		if err != nil {
			return claims, err
		}
		pod := obj.(*corev1.Pod)
		if pod.Spec.ServiceAccountName != account.Name {
			return claims, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name))
		}
		if claims.Node, err = i.nodeOf(ctx, pod); err != nil {
			return claims, err
		}
		uid, claims.Pod = pod.UID, &ref{pod.Name, string(pod.UID)}
	case schema.GroupKind{Kind: "Node"}:
		node, err := i.objects.Find(ctx, nodes, "", to.Name)
		if err != nil {
			return claims, err
		}
		uid, claims.Node = node.GetUID(), &ref{node.GetName(), string(node.GetUID())}
	case schema.GroupKind{Kind: "Secret"}:
		secret, err := i.objects.Find(ctx, secrets, account.Namespace, to.Name)
		if err != nil {
			return claims, err
		}
		uid, claims.Secret = secret.GetUID(), &ref{secret.GetName(), string(secret.GetUID())}
	default:
		return claims, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk.String()))
	}
	if to.UID != "" && to.UID != uid {
		return claims, apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, to.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", to.UID))
	}
	return claims, nil
}

// nodeOf names the node of a pod, without UID when there is no such node.
func (i *Issuer) nodeOf(ctx context.Context, pod *corev1.Pod) (*ref, error) {
	name := pod.Spec.NodeName
	if name == "" {
		return nil, nil
	}
	node, err := i.objects.Find(ctx, nodes, "", name)
	switch {
	case apierrors.IsNotFound(err):
		return &ref{Name: name}, nil
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	}
	return &ref{name, string(node.GetUID())}, nil
}

func subset(of, in []string) bool {
	return !slices.ContainsFunc(of, func(s string) bool { return !slices.Contains(in, s) })
}
