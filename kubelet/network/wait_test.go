package network

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/apiserver/apiservertest"
)

func TestWaitForPodCIDRs(t *testing.T) {
	server := apiservertest.Start(t)
	nodes := server.Clientset().CoreV1().Nodes()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := WaitForPodCIDRs(ended, server.Clientset(), "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	got := make(chan []netip.Prefix, 1)
	go func() {
		cidrs, err := WaitForPodCIDRs(t.Context(), server.Clientset(), "a")
		if err != nil {
			t.Error(err)
		}
		got <- cidrs
	}()
	for _, name := range []string{"b", "a"} {
		if _, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, patch := range map[string]string{"b": `{"spec":{"podCIDR":"10.0.1.0/24"}}`, "a": `{"spec":{"podCIDR":"10.0.2.0/24"}}`} {
		if _, err := nodes.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if cidrs := <-got; len(cidrs) != 1 || cidrs[0] != netip.MustParsePrefix("10.0.2.0/24") {
		t.Errorf("got %v", cidrs)
	}
}
