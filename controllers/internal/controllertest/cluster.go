package controllertest

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/internal/eventually"
)

// Cluster is an Env with a small kubelet that is easy to steer, and whose API server can be made to refuse requests.
type Cluster struct {
	*Env
	Kubelet *Kubelet

	// Refuse says which requests of Client fail with 403 and the text "refused", as a quota or a webhook would have it.
	// Nil: none.
	Refuse atomic.Pointer[func(*http.Request) bool]
}

// New starts an API server. Controllers are made next, then Run.
func New(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{Env: Start(t)}
	config := rest.CopyConfig(c.Server)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusing{c, next} })
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c.Client = client
	c.Kubelet = newKubelet(t, client, c.Informers)
	return c
}

type refusing struct {
	cluster *Cluster
	next    http.RoundTripper
}

func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if refuse := r.cluster.Refuse.Load(); refuse == nil || !(*refuse)(request) {
		return r.next.RoundTrip(request)
	}
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"refused"}`
	return &http.Response{
		StatusCode: http.StatusForbidden, ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// Namespace makes a namespace for a subtest, and returns its name.
func (c *Cluster) Namespace(t testing.TB, name string) string {
	t.Helper()
	c.For(t).Namespace(name)
	return name
}

// HasEvent waits for an event with a reason and a message about an object.
func (c *Cluster) HasEvent(t testing.TB, namespace, object, reason, message string) {
	t.Helper()
	eventually.True(t, "event "+reason+": "+message, func() bool {
		events, err := c.Client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == object && e.Reason == reason && e.Message == message {
				return true
			}
		}
		return false
	})
}
