package attachdetach

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/storage/ephemeral"

	"vigil/informer"
)

// use is a node's use of a volume.
type use struct {
	node string
	pv   *corev1.PersistentVolume
	pods []*corev1.Pod // sorted by age
}

// state is what there is of a volume.
type state struct {
	uses        []use                                  // sorted by the age of their oldest pods
	attachments map[string]*storagev1.VolumeAttachment // ours, by node
}

// look finds out who uses a volume, and what is attached.
func (c *Controller) look(driver, handle string) (*state, error) {
	s := &state{attachments: map[string]*storagev1.VolumeAttachment{}}
	pvs, err := c.volumes.ByIndex(volumesByHandle, handleKey(driver, handle))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(pvs, func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
	attachable, err := c.attachable(driver)
	if err != nil {
		return nil, err
	}
	for _, pv := range pvs {
		attachments, err := c.attachments.ByIndex(attachmentsByVolume, pv.Name)
		if err != nil {
			return nil, err
		}
		for _, a := range attachments {
			if a.Name == Name(driver, handle, a.Spec.NodeName) {
				s.attachments[a.Spec.NodeName] = a
			}
		}
		if !attachable {
			continue
		}
		pods, err := c.podsOf(pv)
		if err != nil {
			return nil, err
		}
		for _, pod := range pods {
			s.add(pv, pod)
		}
	}
	for i := range s.uses {
		slices.SortFunc(s.uses[i].pods, byAge)
	}
	slices.SortFunc(s.uses, func(a, b use) int { return byAge(a.pods[0], b.pods[0]) })
	return s, nil
}

func (s *state) add(pv *corev1.PersistentVolume, pod *corev1.Pod) {
	for i := range s.uses {
		if s.uses[i].node == pod.Spec.NodeName {
			s.uses[i].pods = append(s.uses[i].pods, pod)
			return
		}
	}
	s.uses = append(s.uses, use{node: pod.Spec.NodeName, pv: pv, pods: []*corev1.Pod{pod}})
}

func (s *state) usedOn(node string) bool {
	return slices.ContainsFunc(s.uses, func(u use) bool { return u.node == node })
}

func byAge(a, b *corev1.Pod) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// attachable says whether the volumes of a driver are attached at all.
func (c *Controller) attachable(name string) (bool, error) {
	driver, err := c.drivers.Get("", name)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return driver.Spec.AttachRequired == nil || *driver.Spec.AttachRequired, nil
}

// podsOf are the pods that use a volume, on nodes that there are.
func (c *Controller) podsOf(pv *corev1.PersistentVolume) ([]*corev1.Pod, error) {
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return nil, nil
	}
	claim, err := c.claims.Get(ref.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if claim.UID != ref.UID || claim.Spec.VolumeName != pv.Name || claim.Status.Phase != corev1.ClaimBound {
		return nil, nil
	}
	objects, err := c.pods.Indexer().ByIndex(podsByClaim, claim.Namespace+"/"+claim.Name)
	if err != nil {
		return nil, err
	}
	var pods []*corev1.Pod
	for _, o := range objects {
		pod, err := informer.As[*corev1.Pod](o)
		if err != nil {
			return nil, err
		}
		if pod.Spec.NodeName == "" || terminated(pod) || !uses(pod, claim) {
			continue
		}
		if _, ok := c.nodes.Informer().Indexer().Get("", pod.Spec.NodeName); ok {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// uses says whether a claim is one of a pod's. One that only has the name of that for an ephemeral volume is not.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		switch {
		case v.PersistentVolumeClaim != nil:
			return v.PersistentVolumeClaim.ClaimName == claim.Name
		case v.Ephemeral != nil:
			return ephemeral.VolumeClaimName(pod, &v) == claim.Name && ephemeral.VolumeIsForPod(pod, claim) == nil
		}
		return false
	})
}

// terminated says whether nothing of a pod runs or will run again.
func terminated(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	return pod.DeletionTimestamp != nil && !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.State.Terminated == nil && s.State.Waiting == nil
	})
}

// exclusive says whether a volume may be attached to one node only. One without access modes is left to its driver.
func exclusive(pv *corev1.PersistentVolume) bool {
	modes := pv.Spec.AccessModes
	return len(modes) > 0 && !slices.Contains(modes, corev1.ReadWriteMany) && !slices.Contains(modes, corev1.ReadOnlyMany)
}
