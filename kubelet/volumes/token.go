package volumes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	// oldest is how old a token may become, however long it lives; jitter spreads the requests of pods that began together
	// (pkg/kubelet/token).
	oldest = 24 * time.Hour
	jitter = 10 * time.Second
	// retryToken is how soon a token that could not be replaced is asked for again.
	retryToken = 30 * time.Second
	// tokenSeconds is how long tokens live when the pod does not say.
	tokenSeconds = 60 * 60
)

// tokenKey is what a token is for.
type tokenKey struct {
	pod                types.UID
	namespace, account string
	audience           string
	seconds            int64
}

// token is a service account's token that is bound to a pod.
type token struct {
	value   string
	refresh time.Time // when it should be replaced
	expires time.Time
}

// tokens asks for service accounts' tokens and keeps them until they should be replaced: when 80 % of their life is over, or a day.
type tokens struct {
	client kubernetes.Interface
	now    func() time.Time

	mu   sync.Mutex
	held map[tokenKey]token
}

// get returns a token for a pod. One that cannot be replaced is used as long as it lives.
func (t *tokens) get(ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection) (token, error) {
	key := tokenKey{pod.UID, pod.Namespace, pod.Spec.ServiceAccountName, source.Audience, tokenSeconds}
	if source.ExpirationSeconds != nil {
		key.seconds = *source.ExpirationSeconds
	}
	if key.account == "" {
		key.account = "default"
	}
	t.mu.Lock()
	held, ok := t.held[key]
	t.mu.Unlock()
	now := t.now()
	if ok && now.Before(held.refresh) {
		return held, nil
	}
	fresh, err := t.request(ctx, pod, key)
	switch {
	case err == nil:
	case !ok:
		return token{}, fmt.Errorf("failed to fetch token: %w", err)
	case now.After(held.expires):
		return token{}, fmt.Errorf("token %q/%q/%q expired and refresh failed: %w", key.account, key.namespace, key.audience, err)
	default:
		fresh = held
		fresh.refresh = now.Add(retryToken)
	}
	t.mu.Lock()
	t.held[key] = fresh
	t.mu.Unlock()
	return fresh, nil
}

func (t *tokens) request(ctx context.Context, pod *corev1.Pod, key tokenKey) (token, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.seconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if key.audience != "" {
		request.Spec.Audiences = []string{key.audience}
	}
	asked := t.now()
	answer, err := t.client.CoreV1().ServiceAccounts(key.namespace).CreateToken(ctx, key.account, request, metav1.CreateOptions{})
	if err != nil {
		return token{}, err
	}
	life := time.Duration(key.seconds) * time.Second
	if answer.Spec.ExpirationSeconds != nil {
		life = time.Duration(*answer.Spec.ExpirationSeconds) * time.Second
	}
	expires := answer.Status.ExpirationTimestamp.Time
	age := min(life*8/10, oldest) - rand.N(min(jitter, life/20+1))
	refresh := expires.Add(age - life)
	if refresh.Before(asked) || refresh.After(asked.Add(age)) { // the clocks do not agree
		refresh = asked.Add(age)
	}
	return token{value: strings.TrimSpace(answer.Status.Token), refresh: refresh, expires: expires}, nil
}

// forget lets go of the tokens of a pod.
func (t *tokens) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.held {
		if key.pod == uid {
			delete(t.held, key)
		}
	}
}
