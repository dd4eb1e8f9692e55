package nodestatus

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/informer"
	"vigil/kubelet/internal/resourceversion"
)

// ownNode is the informer for the one Node that is this kubelet's.
func ownNode(factory *informer.Factory, name string) *informer.Informer {
	mine := informer.ResourceOf[*corev1.Node]()
	mine.FieldSelector = metav1.ObjectNameField + "=" + name
	mine.DropManagedFields = true
	return factory.Informer(mine)
}

// known returns the Node as the API server has it. The watch has brought it, so that a node to which nothing happens asks nothing. The
// server is asked for a Node that the watch does not show: it was deleted, the watch has not begun, or the last write has not come back.
func (n *Reporter) known(ctx context.Context) (*corev1.Node, error) {
	if object, ok := n.nodes.Indexer().Get("", n.config.NodeName); ok && !resourceversion.IsOlder(object.ResourceVersion(), n.written) {
		return informer.As[*corev1.Node](object)
	}
	return n.config.Client.CoreV1().Nodes().Get(ctx, n.config.NodeName, metav1.GetOptions{ResourceVersion: "0"})
}

// Wait waits until the API server has this kubelet's Node and it is as wanted, and returns it. It fails with ctx.
func (n *Reporter) Wait(ctx context.Context, wanted func(*corev1.Node) bool) (*corev1.Node, error) {
	found := make(chan *corev1.Node, 1)
	look := func(node *corev1.Node) {
		if wanted(node) {
			select {
			case found <- node:
			default:
			}
		}
	}
	watching := n.nodes.AddHandler(informer.Handler[*corev1.Node]{
		OnAdd:    func(node *corev1.Node, _ bool) { look(node) },
		OnUpdate: func(_, node *corev1.Node) { look(node) },
	}.EventHandler())
	defer watching.Remove()
	select {
	case node := <-found:
		return node, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for node %s: %w", n.config.NodeName, context.Cause(ctx))
	}
}
