package volumes

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// BindTimeout is how long Bind waits unless Rules say otherwise, as upstream.
const BindTimeout = 10 * time.Minute

// Assume chooses for a node, which fits, and keeps what is chosen from others until Release.
func (p *Plan) Assume(node *corev1.Node) {
	p.decision, _ = p.decide(node)
	b := p.binder
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, binding := range p.decision.bindings {
		b.taken[binding.pv.Name] = binding.claim.UID
	}
	for _, claim := range p.decision.provision {
		key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
		s := b.selected[key]
		if s == nil {
			s = &selection{node: node.Name}
			b.selected[key] = s
		}
		s.plans++
	}
}

// Binds says whether what Assume has chosen leaves anything to Bind.
func (p *Plan) Binds() bool { return len(p.decision.bindings)+len(p.decision.provision) > 0 }

// Release gives back what Assume has kept. After a Bind that has succeeded everybody can see who has what.
func (p *Plan) Release() {
	b := p.binder
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, binding := range p.decision.bindings {
		if b.taken[binding.pv.Name] == binding.claim.UID {
			delete(b.taken, binding.pv.Name)
		}
	}
	for _, claim := range p.decision.provision {
		key := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
		if s := b.selected[key]; s != nil {
			if s.plans--; s.plans == 0 {
				delete(b.selected, key)
			}
		}
	}
	p.decision = decision{}
}

// Bind writes what was decided and waits until all claims are bound. wanted says whether the pod still is. It fails when the claims cannot be bound
// to this node, after Rules.BindTimeout, and when ctx ends.
func (p *Plan) Bind(ctx context.Context, wanted func() bool) error {
	expired := time.NewTimer(p.rules.BindTimeout)
	defer expired.Stop()
	for _, binding := range p.decision.bindings {
		if err := p.reserve(ctx, binding); err != nil {
			return fmt.Errorf("binding volumes: %w", err)
		}
	}
	since := map[types.UID]string{}
	for _, claim := range p.decision.provision {
		version, err := p.selectNode(ctx, claim)
		if err != nil {
			return fmt.Errorf("binding volumes: %w", err)
		}
		since[claim.UID] = version
	}
	for {
		news := p.binder.next()
		done, err := p.check(since)
		if err == nil && !done && !wanted() {
			err = errors.New("the pod is no longer there")
		}
		if err != nil {
			return fmt.Errorf("binding volumes: %w", err)
		}
		if done {
			return nil
		}
		select {
		case <-news:
		case <-expired.C:
			return fmt.Errorf("binding volumes: %w", context.DeadlineExceeded)
		case <-ctx.Done():
			return fmt.Errorf("binding volumes: %w", ctx.Err())
		}
	}
}

// reserve points a volume at its claim; the binder does the rest.
func (p *Plan) reserve(ctx context.Context, b binding) error {
	pv, dirty, err := volume.GetBindVolumeToClaim(b.pv, b.claim)
	if err != nil || !dirty {
		return err
	}
	_, err = p.binder.client.CoreV1().PersistentVolumes().Update(ctx, pv, metav1.UpdateOptions{})
	return err
}

// selectNode tells the provisioner of a claim where its first pod will run. It returns the version of the claim that says so.
func (p *Plan) selectNode(ctx context.Context, claim *corev1.PersistentVolumeClaim) (string, error) {
	node := p.decision.node.Name
	if claim.Annotations[volume.AnnSelectedNode] == node {
		return claim.ResourceVersion, nil
	}
	clone := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&clone.ObjectMeta, volume.AnnSelectedNode, node)
	updated, err := p.binder.client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, clone, metav1.UpdateOptions{})
	if err != nil {
		return "", err
	}
	return updated.ResourceVersion, nil
}

// check says whether all claims are bound. since has the versions from which claims are known to have a node selected.
func (p *Plan) check(since map[types.UID]string) (bool, error) {
	node, done := p.decision.node, true
	look := func(claim *corev1.PersistentVolumeClaim) error {
		now, err := p.binder.claims.Get(claim.Namespace, claim.Name)
		if err != nil || now.UID != claim.UID {
			return fmt.Errorf("PVC %q is gone: %w", claim.Name, err)
		}
		if !isBound(now) {
			done = false
			selected := now.Annotations[volume.AnnSelectedNode]
			if version, ok := since[claim.UID]; ok && selected != node.Name && !older(now.ResourceVersion, version) {
				return fmt.Errorf("selectedNode annotation reset for PVC %q", claim.Name)
			}
			return nil
		}
		pv := p.binder.volume(now.Spec.VolumeName)
		if pv == nil || now.Status.Phase != corev1.ClaimBound {
			done = false // the cache is behind, or the last write is, without which the kubelet does not take the claim
			return nil
		}
		if err := volume.CheckNodeAffinity(pv, node.Labels); err != nil {
			return fmt.Errorf("pv %q node affinity doesn't match node %q: %w", pv.Name, node.Name, err)
		}
		return nil
	}
	for _, b := range p.decision.bindings {
		if err := look(b.claim); err != nil {
			return false, err
		}
	}
	for _, claim := range p.decision.provision {
		if err := look(claim); err != nil {
			return false, err
		}
	}
	return done, nil
}

// older compares resource versions of one object (KEP-5504): more digits are more.
func older(a, b string) bool { return len(a) < len(b) || len(a) == len(b) && a < b }
