package attachdetach

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"vigil/informer"
)

// The indexes of this controller.
const (
	podsByClaim         = "pods by claims of their volumes" // namespace/name
	podsByNode          = "pods with claims by node"
	volumesByHandle     = "CSI volumes" // driver^handle
	attachmentsByVolume = "attachments by volume"
	attachmentsByNode   = "attachments by node"
)

var (
	claimNames = informer.ByField(func(p *corev1.Pod) (names []string) {
		for i := range p.Spec.Volumes {
			if claim := p.Spec.Volumes[i].PersistentVolumeClaim; claim != nil {
				names = append(names, claim.ClaimName)
			}
		}
		return names
	}, 2, 1, 2, 10, 1)
	// ephemerals has an entry for each ephemeral volume; what it says has no meaning.
	ephemerals = informer.ByField(func(p *corev1.Pod) (names []string) {
		for i := range p.Spec.Volumes {
			if p.Spec.Volumes[i].Ephemeral != nil {
				names = append(names, p.Spec.Volumes[i].Name)
			}
		}
		return names
	}, 2, 1, 2, 29)
	nodeOf = informer.ByField(func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} }, 2, 10)

	volumeOfAttachment = informer.ByField(func(a *storagev1.VolumeAttachment) []string {
		if name := a.Spec.Source.PersistentVolumeName; name != nil {
			return []string{*name}
		}
		return nil
	}, 2, 2, 1)
	nodeOfAttachment = informer.ByField(func(a *storagev1.VolumeAttachment) []string { return []string{a.Spec.NodeName} }, 2, 3)

	handleOf = informer.ByDecoded(func(pv *corev1.PersistentVolume) []string {
		if csi := pv.Spec.CSI; csi != nil {
			return []string{handleKey(csi.Driver, csi.VolumeHandle)}
		}
		return nil
	})
)

func handleKey(driver, handle string) string { return driver + "^" + handle }

// claimsOf are the claims of a pod as namespace/name. Pods without any, which most are, are not decoded.
func claimsOf(dst []string, o *informer.Object) []string {
	for _, name := range claimNames(nil, o) {
		dst = append(dst, o.Namespace()+"/"+name)
	}
	if len(ephemerals(nil, o)) == 0 {
		return dst
	}
	pod, err := informer.As[*corev1.Pod](o)
	if err != nil {
		return dst
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Ephemeral != nil {
			dst = append(dst, o.Namespace()+"/"+ephemeral.VolumeClaimName(pod, v))
		}
	}
	return dst
}

// nodeWithClaims is the node of a pod that has claims.
func nodeWithClaims(dst []string, o *informer.Object) []string {
	if len(claimNames(nil, o)) == 0 && len(ephemerals(nil, o)) == 0 {
		return dst
	}
	return nodeOf(dst, o)
}
