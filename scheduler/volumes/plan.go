package volumes

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/component-helpers/storage/volume"
)

// Reasons why a node is not for a pod, in upstream's words.
const (
	reasonNodeConflict = "node(s) didn't match PersistentVolume's node affinity"
	reasonBindConflict = "node(s) didn't find available persistent volumes to bind"
	reasonNoVolume     = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
	reasonZone         = "node(s) had no available volume zone"
	reasonExclusive    = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
)

// Rules say which of upstream's plug-ins are on.
type Rules struct {
	Binding      bool // VolumeBinding: claims keep pods waiting until they are bound; volumes' node affinity
	Restrictions bool // VolumeRestrictions: ReadWriteOncePod
	Zone         bool // VolumeZone

	BindTimeout time.Duration // how long Bind waits for claims to be bound; 0: not at all
}

// AllRules are upstream's defaults.
func AllRules() Rules {
	return Rules{Binding: true, Restrictions: true, Zone: true, BindTimeout: BindTimeout}
}

// Plan is what a pod's claims ask of nodes. It is used by one goroutine at a time.
type Plan struct {
	binder    *Binder
	rules     Rules
	pod       *corev1.Pod
	exclusive bool // another pod has a claim that is for one pod only

	bound    []*corev1.PersistentVolume // nil for one that is not there
	waiting  []waiting
	decision decision // by Assume
}

// waiting is a claim whose volume the scheduler chooses.
type waiting struct {
	claim      *corev1.PersistentVolumeClaim
	class      *storagev1.StorageClass
	node       string                     // selected before; "": none
	candidates []*corev1.PersistentVolume // that may be free
}

// decision is what is done for a pod's claims on a node.
type decision struct {
	node      *corev1.Node
	bindings  []binding
	provision []*corev1.PersistentVolumeClaim
}

type binding struct {
	pv    *corev1.PersistentVolume
	claim *corev1.PersistentVolumeClaim
}

// Plan looks at the claims of a pod; nil when it has none. users says how many placed pods use a claim. An error says, in upstream's words,
// why the pod cannot run anywhere yet.
func (b *Binder) Plan(pod *corev1.Pod, users func(claim types.NamespacedName) int, rules Rules) (*Plan, error) {
	var p *Plan
	immediate := false
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
			continue
		}
		if p == nil {
			p = &Plan{binder: b, pod: pod, rules: rules}
		}
		claim, err := b.claimOf(pod, v)
		if err != nil {
			return nil, err
		}
		if rules.Restrictions && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) && users(types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}) > 0 {
			p.exclusive = true
		}
		unbound, err := p.add(claim)
		if err != nil {
			return nil, err
		}
		immediate = immediate || unbound
	}
	if immediate {
		return nil, fmt.Errorf("pod has unbound immediate PersistentVolumeClaims")
	}
	return p, nil
}

// claimOf is the claim of a pod's volume, which may be used.
func (b *Binder) claimOf(pod *corev1.Pod, v *corev1.Volume) (*corev1.PersistentVolumeClaim, error) {
	name := ""
	if v.Ephemeral != nil {
		name = ephemeral.VolumeClaimName(pod, v)
	} else {
		name = v.PersistentVolumeClaim.ClaimName
	}
	claim, err := b.claims.Get(pod.Namespace, name)
	switch {
	case apierrors.IsNotFound(err) && v.Ephemeral != nil:
		return nil, fmt.Errorf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("persistentvolumeclaim %q not found", name)
	case err != nil:
		return nil, err
	case claim.Status.Phase == corev1.ClaimLost:
		return nil, fmt.Errorf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return nil, fmt.Errorf("persistentvolumeclaim %q is being deleted", name)
	case v.Ephemeral != nil:
		return claim, ephemeral.VolumeIsForPod(pod, claim)
	}
	return claim, nil
}

// add takes in a claim. unbound says that others have to bind it first.
func (p *Plan) add(claim *corev1.PersistentVolumeClaim) (unbound bool, err error) {
	if isBound(claim) {
		p.bound = append(p.bound, p.binder.volume(claim.Spec.VolumeName))
		return false, nil
	}
	if !p.rules.Binding {
		return false, nil
	}
	if claim.Spec.VolumeName != "" {
		return true, nil
	}
	name := volume.GetPersistentVolumeClaimClass(claim)
	class, err := p.binder.classes.Get("", name)
	if name == "" || apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return true, nil
	}
	w := waiting{claim: claim, class: class}
	w.node, w.candidates = p.binder.choices(claim, name)
	p.waiting = append(p.waiting, w)
	// Small claims choose first, so that they do not get what only large ones need.
	slices.SortStableFunc(p.waiting, func(a, b waiting) int {
		x, y := a.claim.Spec.Resources.Requests[corev1.ResourceStorage], b.claim.Spec.Resources.Requests[corev1.ResourceStorage]
		return x.Cmp(y)
	})
	return false, nil
}

func isBound(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeName != "" && metav1.HasAnnotation(claim.ObjectMeta, volume.AnnBindCompleted)
}

// choices are the node that is selected for a claim, and volumes that it may get.
func (b *Binder) choices(claim *corev1.PersistentVolumeClaim, class string) (node string, candidates []*corev1.PersistentVolume) {
	b.mu.Lock()
	defer b.mu.Unlock()
	node = claim.Annotations[volume.AnnSelectedNode]
	if s := b.selected[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}]; s != nil {
		node = s.node
	}
	for _, pv := range b.volumes {
		if by, ok := b.taken[pv.Name]; ok && by != claim.UID {
			continue
		}
		if volume.GetPersistentVolumeClass(pv) == class || volume.IsVolumeBoundToClaim(pv, claim) {
			candidates = append(candidates, pv)
		}
	}
	slices.SortFunc(candidates, func(a, b *corev1.PersistentVolume) int { return strings.Compare(a.Name, b.Name) })
	return node, candidates
}

// Fits says why the pod cannot run on a node; nothing when it can.
func (p *Plan) Fits(node *corev1.Node) []string {
	_, reasons := p.decide(node)
	return reasons
}

func (p *Plan) decide(node *corev1.Node) (decision, []string) {
	d := decision{node: node}
	if p.exclusive {
		return d, []string{reasonExclusive}
	}
	for _, pv := range p.bound {
		switch {
		case pv == nil:
			if p.rules.Binding {
				return d, []string{reasonNoVolume}
			}
		case p.rules.Binding && volume.CheckNodeAffinity(pv, node.Labels) != nil:
			return d, []string{reasonNodeConflict}
		case p.rules.Zone && !inZone(pv, node):
			return d, []string{reasonZone}
		}
	}
	chosen := map[string]*corev1.PersistentVolume{}
	for _, w := range p.waiting {
		if w.node == "" {
			pv, err := volume.FindMatchingVolume(w.claim, w.candidates, node, chosen, true, true)
			if err != nil {
				return d, []string{err.Error()}
			}
			if pv != nil {
				chosen[pv.Name] = pv
				d.bindings = append(d.bindings, binding{pv, w.claim})
				continue
			}
		} else if w.node != node.Name {
			return d, []string{reasonBindConflict}
		}
		if w.class.Provisioner == "" || w.class.Provisioner == volume.NotSupportedProvisioner || !inTopology(w.class.AllowedTopologies, node) {
			return d, []string{reasonBindConflict}
		}
		d.provision = append(d.provision, w.claim)
	}
	return d, nil
}

// inZone says whether a node has the zone and region that a volume's labels name, as volumes without node affinity do. Nodes without such
// labels take any.
func inZone(pv *corev1.PersistentVolume, node *corev1.Node) bool {
	if pv.Spec.NodeAffinity != nil {
		return true
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion} {
		have, ok := node.Labels[key]
		if want := pv.Labels[key]; ok && want != "" && !slices.Contains(strings.Split(want, "__"), have) {
			return false
		}
	}
	return true
}

// inTopology says whether a node is where a class allows its volumes; no terms allow all.
func inTopology(terms []corev1.TopologySelectorTerm, node *corev1.Node) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(term corev1.TopologySelectorTerm) bool {
		return len(term.MatchLabelExpressions) > 0 && !slices.ContainsFunc(term.MatchLabelExpressions, func(r corev1.TopologySelectorLabelRequirement) bool {
			have, ok := node.Labels[r.Key]
			return !ok || !slices.Contains(r.Values, have)
		})
	})
}
