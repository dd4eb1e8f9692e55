package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// tokenKey is what a token is for.
type tokenKey struct {
	pod      types.UID
	audience string
	seconds  int64
}

// token is a service account's token that is bound to a pod, as drivers read it.
type token struct {
	Token   string      `json:"token"`
	Expires metav1.Time `json:"expirationTimestamp"`

	refresh time.Time // when it should be replaced
}

// tokens asks for the tokens that drivers want of pods' service accounts, and keeps them until 80 % of their life is over.
type tokens struct {
	client kubernetes.Interface

	mu   sync.Mutex
	held map[tokenKey]token
}

// get returns a pod's tokens by audience, as JSON.
func (t *tokens) get(ctx context.Context, pod *corev1.Pod, requests []storagev1.TokenRequest) (string, error) {
	all := map[string]token{}
	for _, request := range requests {
		one, err := t.one(ctx, pod, request)
		if err != nil {
			return "", fmt.Errorf("failed to get service account token attributes: %w", err)
		}
		all[request.Audience] = one
	}
	text, err := json.Marshal(all)
	return string(text), err
}

func (t *tokens) one(ctx context.Context, pod *corev1.Pod, wanted storagev1.TokenRequest) (token, error) {
	key := tokenKey{pod: pod.UID, audience: wanted.Audience}
	if wanted.ExpirationSeconds != nil {
		key.seconds = *wanted.ExpirationSeconds
	}
	t.mu.Lock()
	held, ok := t.held[key]
	t.mu.Unlock()
	now := time.Now()
	if ok && now.Before(held.refresh) {
		return held, nil
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: wanted.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	if wanted.Audience != "" {
		request.Spec.Audiences = []string{wanted.Audience}
	}
	answer, err := t.client.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return token{}, err
	}
	expires := answer.Status.ExpirationTimestamp
	fresh := token{answer.Status.Token, expires, now.Add(expires.Sub(now) * 8 / 10)}
	t.mu.Lock()
	t.held[key] = fresh
	t.mu.Unlock()
	return fresh, nil
}

// forget lets go of the tokens of a pod.
func (t *tokens) forget(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.held {
		if key.pod == pod {
			delete(t.held, key)
		}
	}
}
