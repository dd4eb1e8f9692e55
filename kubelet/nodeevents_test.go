package kubelet_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
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

// sleepy is a runtime that may not be ready.
type sleepy struct {
	*simulated.Runtime
	asleep atomic.Bool
}

func (s *sleepy) Ready(context.Context) error {
	if s.asleep.Load() {
		return errors.New("container runtime is down")
	}
	return nil
}

// nodeEvents are the events of the node, each as "TYPE REASON MESSAGE", in any order.
func (c cluster) nodeEvents(t *testing.T) []string {
	t.Helper()
	events, err := c.client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node"})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range events.Items {
		if e.InvolvedObject.Name != "node-1" || e.InvolvedObject.UID != "node-1" || e.Source.Component != "kubelet" || e.Source.Host != "node-1" {
			t.Errorf("event of %+v from %+v", e.InvolvedObject, e.Source)
		}
		found = append(found, cmp.Or(e.Type, "?")+" "+e.Reason+" "+e.Message)
	}
	slices.Sort(found)
	return found
}

func (c cluster) expectNodeEvents(t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	var got []string
	eventually.Nil(t, "events of the node", says(func() bool {
		got = c.nodeEvents(t)
		return slices.Equal(got, want)
	}, func() string { return "\n" + strings.Join(got, "\n") }))
	if err := c.client.CoreV1().Events("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
}

// The events of a node have upstream's reasons and texts (nodestatus/setters.go, kubelet_node_status.go).
func TestNodeEvents(t *testing.T) {
	c := startCluster(t)
	runtime := &sleepy{Runtime: simulated.New(network)}
	var short atomic.Bool
	start := func(boot string) (stop func()) {
		return c.run(t, runtime, func(config *kubelet.Config) {
			config.System.BootID = boot
			config.Describe = func(status *corev1.NodeStatus) {
				for i := range status.Conditions {
					if c := &status.Conditions[i]; c.Type != corev1.NodeReady && short.Load() {
						c.Status = corev1.ConditionTrue
					}
				}
			}
		})
	}
	is := func(reason string) string { return "Normal " + reason + " Node node-1 status is now: " + reason }
	enough := []string{is("NodeHasSufficientMemory"), is("NodeHasNoDiskPressure"), is("NodeHasSufficientPID")}

	runtime.asleep.Store(true)
	stop := start("boot-1")
	c.expectNodeEvents(t, append(enough, "Normal Starting Starting kubelet.")...)
	runtime.asleep.Store(false)
	c.expectNodeEvents(t, is("NodeReady"))
	short.Store(true)
	c.expectNodeEvents(t, is("NodeHasInsufficientMemory"), is("NodeHasDiskPressure"), is("NodeHasInsufficientPID"))
	short.Store(false)
	c.expectNodeEvents(t, enough...)
	runtime.asleep.Store(true)
	c.expectNodeEvents(t, is("NodeNotReady"))

	cordon := func(unschedulable string) {
		t.Helper()
		patch := []byte(`{"spec":{"unschedulable":` + unschedulable + `}}`)
		if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), "node-1", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	cordon("true")
	c.expectNodeEvents(t, is("NodeNotSchedulable"))
	cordon("false")
	c.expectNodeEvents(t, is("NodeSchedulable"))

	stop()
	runtime.asleep.Store(false)
	start("boot-2")
	c.expectNodeEvents(t, append(enough, "Normal Starting Starting kubelet.", is("NodeReady"), "Warning Rebooted Node node-1 has been rebooted, boot id: boot-2")...)
}
