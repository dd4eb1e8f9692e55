package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
)

const (
	allowedTTL   = 5 * time.Minute  // --authorization-webhook-cache-authorized-ttl
	refusedTTL   = 30 * time.Second // --authorization-webhook-cache-unauthorized-ttl
	maxDecisions = 8192
)

// authorizer asks the API server what callers may do with this node.
type authorizer struct {
	client   kubernetes.Interface
	node     string
	allowAll bool
	answered *cache.LRUExpireCache // a SubjectAccessReviewSpec as JSON to bool
}

func newAuthorizer(client kubernetes.Interface, node string, allowAll bool) *authorizer {
	return &authorizer{client: client, node: node, allowAll: allowAll, answered: cache.NewLRUExpireCache(maxDecisions)}
}

var verbs = map[string]string{"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}

// reaching are the paths of what reaches into containers. A WebSocket is opened by a GET, but who may read from a node may not thereby run commands in all of its
// containers: they need create, whatever the method. The API server asks the same for pods; upstream's kubelet asks for get.
var reaching = map[string]bool{"exec": true, "attach": true, "portForward": true, "run": true}

// subresources of nodes by the first part of a path. One of them is enough.
var subresources = map[string][]string{
	"pods": {"pods", "proxy"}, "runningpods": {"pods", "proxy"}, "healthz": {"healthz", "proxy"}, "configz": {"configz", "proxy"},
	"stats": {"stats"}, "metrics": {"metrics"}, "logs": {"log"}, "checkpoint": {"checkpoint"},
}

// authorize says whether a user may do what a request asks for. what describes it, for the refusal.
func (a *authorizer) authorize(r *http.Request, user *authenticationv1.UserInfo) (allowed bool, what string, err error) {
	if a.allowAll {
		return true, "", nil
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	wanted, known := subresources[first]
	if !known {
		wanted = []string{"proxy"}
	}
	verb := verbs[r.Method]
	if reaching[first] {
		verb = "create"
	}
	for _, sub := range wanted {
		allowed, err := a.ask(r.Context(), user, verb, sub)
		if err != nil {
			return false, fmt.Sprintf("user=%s, verb=%s, resource=nodes, subresource=%s", user.Username, verb, sub), err
		}
		if allowed {
			return true, "", nil
		}
	}
	return false, fmt.Sprintf("user=%s, verb=%s, resource=nodes, subresource(s)=%v", user.Username, verb, wanted), nil
}

func (a *authorizer) ask(ctx context.Context, user *authenticationv1.UserInfo, verb, sub string) (bool, error) {
	spec := authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: sub, Name: a.node},
	}
	if len(user.Extra) > 0 {
		spec.Extra = make(map[string]authorizationv1.ExtraValue, len(user.Extra))
		for key, values := range user.Extra {
			spec.Extra[key] = authorizationv1.ExtraValue(values)
		}
	}
	key, err := json.Marshal(&spec)
	if err != nil {
		return false, err
	}
	if known, ok := a.answered.Get(string(key)); ok {
		return known.(bool), nil
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	review, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("ask whether %q may %s nodes/%s: %w", user.Username, verb, sub, err)
	}
	ttl := refusedTTL
	if review.Status.Allowed {
		ttl = allowedTTL
	}
	a.answered.Add(string(key), review.Status.Allowed, ttl)
	return review.Status.Allowed, nil
}
