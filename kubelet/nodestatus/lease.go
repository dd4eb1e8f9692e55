package nodestatus

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Lease renews the node's Lease in kube-node-lease, which says that the node is alive at the cost of a few hundred bytes
// (KEP-589).
type Lease struct {
	config Config
	latest *coordinationv1.Lease // as last written; nil: not known
}

// NewLease makes a Lease, which writes nothing before Keep.
func NewLease(config Config) *Lease { return &Lease{config: config} }

// Keep renews and says when to do it again: after a quarter of the lease's duration, sooner after a failure.
func (l *Lease) Keep(ctx context.Context) (wait time.Duration) {
	period := l.config.LeaseDuration / 4
	if err := l.renew(ctx); err != nil && ctx.Err() == nil {
		l.config.Logger.Warn("the kubelet could not renew the node's lease; it tries again: without a lease the node counts as unreachable", "node", l.config.NodeName, "error", err)
		l.latest = nil
		return min(period, time.Second)
	}
	return period
}

func (l *Lease) renew(ctx context.Context) error {
	leases := l.config.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if l.latest == nil {
		found, err := leases.Get(ctx, l.config.NodeName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			fresh, err := l.fresh(ctx)
			if err != nil {
				return err
			}
			l.latest, err = leases.Create(ctx, fresh, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		l.latest = found
	}
	next := l.latest.DeepCopy()
	now := metav1.NowMicro()
	seconds := int32(l.config.LeaseDuration / time.Second)
	next.Spec.RenewTime, next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds = &now, &l.config.NodeName, &seconds
	written, err := leases.Update(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	l.latest = written
	return nil
}

// fresh makes the first Lease, owned by the Node so that it goes when the Node does.
func (l *Lease) fresh(ctx context.Context) (*coordinationv1.Lease, error) {
	node, err := l.config.Client.CoreV1().Nodes().Get(ctx, l.config.NodeName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	now := metav1.NowMicro()
	seconds := int32(l.config.LeaseDuration / time.Second)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: l.config.NodeName, Namespace: corev1.NamespaceNodeLease,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &l.config.NodeName, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}, nil
}
