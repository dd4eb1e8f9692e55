package network

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestHostPorts_Retry: what could not be written is not said to be done at the next try.
func TestHostPorts_Retry(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no directory, so that nothing can be kept in it
		t.Fatal(err)
	}
	n := &Network{ports: &hostPorts{
		path: filepath.Join(dir, "hostports.json"), pods: map[types.UID][]hostPort{}, pending: map[types.UID]struct{}{},
	}, inside: func(do func() error) error { return do() }}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "one"}}
	pod.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80}}}}
	for try := range 2 {
		if err := n.Set(t.Context(), pod, []netip.Addr{netip.MustParseAddr("10.244.0.2")}); err == nil {
			t.Errorf("try %d: the port is said to be open", try)
		}
	}
	for try := range 2 {
		if err := n.Remove(t.Context(), pod.UID); err == nil {
			t.Errorf("try %d: the port is said to be closed", try)
		}
	}
}
