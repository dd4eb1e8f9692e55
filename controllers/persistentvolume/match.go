package persistentvolume

import (
	"cmp"
	"errors"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// volumeOf is the volume that a claim names.
func (c *Controller) volumeOf(claim *corev1.PersistentVolumeClaim) (*corev1.PersistentVolume, bool) {
	return c.volumes.get(types.NamespacedName{Name: claim.Spec.VolumeName})
}

// match finds the volume that a claim gets: one that is reserved for it, else the smallest that suits it, of those with the fewest access
// modes. Nil when there is none. A delayed claim gets only what is reserved for it: the scheduler chooses.
func (c *Controller) match(claim *corev1.PersistentVolumeClaim, delayed bool) (*corev1.PersistentVolume, error) {
	byModes := map[int][]*corev1.PersistentVolume{}
	for _, pv := range c.volumes.all() {
		if volume.CheckAccessModes(claim, pv) {
			n := len(pv.Spec.AccessModes)
			byModes[n] = append(byModes[n], pv)
		}
	}
	var found *corev1.PersistentVolume
	for _, n := range slices.Sorted(maps.Keys(byModes)) {
		candidates := byModes[n]
		slices.SortFunc(candidates, func(a, b *corev1.PersistentVolume) int { return cmp.Compare(a.Name, b.Name) })
		pv, err := volume.FindMatchingVolume(claim, candidates, nil, nil, delayed, true)
		if err != nil {
			return nil, err
		}
		if pv != nil && volume.IsVolumeBoundToClaim(pv, claim) {
			return pv, nil
		}
		if found == nil {
			found = pv
		}
	}
	return found, nil
}

// satisfies says why a volume that a claim names does not suit it; nil when it does. Access modes and selector are not asked for then, except
// that the modes must be there.
func satisfies(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	have, want := pv.Spec.Capacity[corev1.ResourceStorage], claim.Spec.Resources.Requests[corev1.ResourceStorage]
	name := func(class *string) string {
		if class == nil {
			return ""
		}
		return *class
	}
	switch {
	case have.Cmp(want) < 0:
		return errors.New("requested PV is too small")
	case volume.GetPersistentVolumeClass(pv) != volume.GetPersistentVolumeClaimClass(claim):
		return errors.New("storageClassName does not match")
	case name(pv.Spec.VolumeAttributesClassName) != name(claim.Spec.VolumeAttributesClassName):
		return errors.New("volumeAttributesClassName does not match")
	case volume.CheckVolumeModeMismatches(&claim.Spec, &pv.Spec):
		return errors.New("incompatible volumeMode")
	case !volume.CheckAccessModes(claim, pv):
		return errors.New("incompatible accessMode")
	}
	return nil
}
