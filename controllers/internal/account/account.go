// Package account lets each controller act as a service account of its own in kube-system, so that it can do what its role
// says and no more. The controller manager asks for their tokens with its own identity, and makes an account that is missing.
//
// Tokens are asked for on first use and renewed when four fifths of their life are over. All clients share the connections of one
// transport. Follows upstream's --use-service-account-credentials (controller-manager/pkg/clientbuilder).
package account

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	lifetime = time.Hour
	// patience bounds one attempt to get a token. Requests wait for it.
	patience = 30 * time.Second
)

// Accounts gives out client configurations.
type Accounts struct {
	server *rest.Config
	client kubernetes.Interface
}

// New returns accounts at a server, whose configuration has no credentials. The client asks for tokens: it needs create on
// serviceaccounts and serviceaccounts/token.
func New(server *rest.Config, client kubernetes.Interface) *Accounts {
	return &Accounts{server, client}
}

// Config returns the configuration of a client that acts as a service account of kube-system.
func (a *Accounts) Config(name string) *rest.Config {
	config := rest.CopyConfig(a.server)
	config.UserAgent = "kube-controller-manager/" + name
	source := &source{client: a.client, name: name}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return bearer{source, next} })
	return config
}

// bearer sends requests with the account's token.
type bearer struct {
	source *source
	next   http.RoundTripper
}

func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	token, err := b.source.token(request.Context())
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close() // as a RoundTripper has to; it was not read
		}
		return nil, err
	}
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := b.next.RoundTrip(request)
	if err == nil && response.StatusCode == http.StatusUnauthorized {
		b.source.forget(token)
	}
	return response, err
}

// source has the token of one account.
type source struct {
	client kubernetes.Interface
	name   string

	mu      sync.Mutex // held while a token is asked for, so that it is asked for once
	current string
	renew   time.Time
}

func (s *source) token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != "" && time.Now().Before(s.renew) {
		return s.current, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seconds := int64(lifetime / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	accounts := s.client.CoreV1().ServiceAccounts(metav1.NamespaceSystem)
	asked := time.Now()
	answer, err := accounts.CreateToken(ctx, s.name, request, metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = accounts.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			answer, err = accounts.CreateToken(ctx, s.name, request, metav1.CreateOptions{})
		}
	}
	if err != nil {
		return "", fmt.Errorf("get token of service account %s: %w", s.name, err)
	}
	s.current = answer.Status.Token
	s.renew = asked.Add(answer.Status.ExpirationTimestamp.Sub(asked) * 4 / 5)
	return s.current, nil
}

// forget drops a token that is not good any more.
func (s *source) forget(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == token {
		s.current = ""
	}
}
