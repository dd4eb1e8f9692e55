package cri

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet"
)

// A pod's worker may remove the pod while the node is searched for what can go.
func TestCollectPod_WhilePodsGo(t *testing.T) {
	r := &Runtime{}
	r.cache.init()
	const pod = types.UID("1")
	var removing sync.WaitGroup
	removing.Go(func() {
		for i := range 300_000 {
			id := fmt.Sprint(i)
			r.cache.mergeSandbox(pod, "default", "p", &sandbox{bare: id})
			r.cache.remove(id)
		}
	})
	for range 300_000 {
		if err := r.collectPod(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	removing.Wait()
}

func TestCache_Replaced(t *testing.T) {
	var c cache
	c.init()
	const pod = types.UID("1")
	for i, live := range []bool{false, true, false, false} {
		c.mergeSandbox(pod, "default", "p", &sandbox{bare: fmt.Sprint(i), live: live, Sandbox: kubelet.Sandbox{Created: time.Unix(int64(i), 0)}})
	}
	c.mergeContainer(pod, &container{bare: "c", sandbox: "2"}, true)
	if got := c.replaced(pod); fmt.Sprint(got) != "[0]" {
		t.Errorf("replaced: %v; 1 lives, 2 has a container, 3 is the newest", got)
	}
	c.remove("c")
	if got := c.replaced(pod); len(got) != 2 {
		t.Errorf("replaced without the container: %v", got)
	}
}
