package cluster

import (
	"context"
	"fmt"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// runByLabel marks the nodes that Up runs itself, so that it can tell them from nodes that joined.
const (
	runByLabel = "vigil.dev/run-by"
	runByUp    = "up"
)

// retireNodes removes the nodes that an earlier run of this cluster had and this one has not, with the pods on them: nobody
// will ever run those, and left alone they would look ready for --node-monitor-grace-period.
func (c *UpConfig) retireNodes(ctx context.Context, dir string) error {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.conf"))
	if err != nil {
		return err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for i := range c.Nodes {
		keep[NodeName(i)] = true
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: runByLabel + "=" + runByUp})
	if err != nil {
		return fmt.Errorf("look for nodes of an earlier run: %w", err)
	}
	for i := range nodes.Items {
		if name := nodes.Items[i].Name; !keep[name] {
			if err := retireNode(ctx, client, name); err != nil {
				return fmt.Errorf("remove node %s of an earlier run: %w", name, err)
			}
		}
	}
	return nil
}

func retireNode(ctx context.Context, client kubernetes.Interface, name string) error {
	if err := client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + name})
	if err != nil {
		return err
	}
	now := int64(0)
	for i := range pods.Items {
		pod := &pods.Items[i]
		err := client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}
