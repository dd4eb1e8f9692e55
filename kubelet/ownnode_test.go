package kubelet_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/internal/eventually"
	"vigil/kubelet"
	"vigil/kubelet/simulated"
)

// asked counts how often a runtime was asked for its version, which is once for each look at the node's status.
type asked struct {
	kubelet.Runtime
	looks atomic.Int64
}

func (a *asked) Version(ctx context.Context) (name, version string, err error) {
	a.looks.Add(1)
	return a.Runtime.Version(ctx)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A node to which nothing happens looks at its status and asks the API server nothing. What others write to its Node it sees at once.
func TestNode_KnownFromWatch(t *testing.T) {
	c := startCluster(t)
	runtime := &asked{Runtime: simulated.New(network)}
	var gets atomic.Int64
	c.run(t, runtime, func(config *kubelet.Config) {
		config.Server.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/nodes/node-1") {
					gets.Add(1)
				}
				return next.RoundTrip(r)
			})
		})
	})
	nodes := c.client.CoreV1().Nodes()
	ready := func() bool {
		node, err := nodes.Get(t.Context(), "node-1", metav1.GetOptions{})
		return err == nil && len(node.Status.Conditions) > 0 && node.Status.Conditions[len(node.Status.Conditions)-1].Status == corev1.ConditionTrue
	}
	looksOn := func(n int64) func() bool {
		until := runtime.looks.Load() + n
		return func() bool { return runtime.looks.Load() >= until }
	}
	said := func() string { return "" }
	eventually.Nil(t, "node is ready", says(ready, said))
	var before int64
	eventually.Nil(t, "the watch has brought the Node", says(func() bool { // five looks in a row ask nothing
		before = gets.Load()
		eventually.Nil(t, "kubelet looks", says(looksOn(5), said))
		return gets.Load() == before
	}, said))
	eventually.Nil(t, "kubelet looks", says(looksOn(20), said))
	if now := gets.Load(); now != before {
		t.Errorf("20 looks at the status asked for the Node %d times", now-before)
	}

	patch := `{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`
	if _, err := nodes.Patch(t.Context(), "node-1", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "node is ready again", says(ready, said))
	if err := nodes.Delete(t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "node is registered again", says(ready, said))
}

// A kubelet waits for what others write to its Node, and no longer than it may.
func TestWaitForNode(t *testing.T) {
	c := startCluster(t)
	k := c.start(t, simulated.New(network), nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	has := func(node *corev1.Node) bool { return node.Spec.PodCIDR != "" }
	if _, err := k.WaitForNode(ended, has); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	if _, err := k.WaitForNode(t.Context(), func(*corev1.Node) bool { return true }); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"spec":{"podCIDR":"10.0.2.0/24"}}`)
	if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), "node-1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	node, err := k.WaitForNode(t.Context(), has)
	if err != nil || node.Spec.PodCIDR != "10.0.2.0/24" {
		t.Errorf("got %+v, %v", node, err)
	}
}
