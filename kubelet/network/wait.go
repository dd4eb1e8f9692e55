package network

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
)

// WaitForPodCIDRs waits until a Node is there and has networks for its pods, of which there is at least one. It reads that Node alone, as
// a kubelet may, and fails only when ctx ends.
func WaitForPodCIDRs(ctx context.Context, client kubernetes.Interface, node string) ([]netip.Prefix, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		cidrs, err := watchForPodCIDRs(ctx, client, node)
		if len(cidrs) > 0 {
			return cidrs, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the pod network of node %s: %w", node, context.Cause(ctx))
		case <-time.After(wait):
		}
		if err == nil || apierrors.IsResourceExpired(err) {
			wait = 50 * time.Millisecond // the watch has ended, as watches do
		}
	}
}

// watchForPodCIDRs is one try: no networks mean another one is needed.
func watchForPodCIDRs(ctx context.Context, client kubernetes.Interface, node string) ([]netip.Prefix, error) {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, node).String()}
	list, err := client.CoreV1().Nodes().List(ctx, options)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		if cidrs := peerOf(&list.Items[i]).cidrs; len(cidrs) > 0 {
			return cidrs, nil
		}
	}
	options.ResourceVersion = list.ResourceVersion
	watch, err := client.CoreV1().Nodes().Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	defer watch.Stop()
	for event := range watch.ResultChan() {
		if object, ok := event.Object.(*corev1.Node); ok {
			if cidrs := peerOf(object).cidrs; len(cidrs) > 0 {
				return cidrs, nil
			}
		}
	}
	return nil, nil
}
