package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"vigil/watchcache"
)

// anyPod says whether some pod of the node refers to what yes looks for.
func (q *question) anyPod(yes func(*refs) bool) bool {
	list, err := q.pods.of(q.node)
	return err == nil && slices.ContainsFunc(list, yes)
}

// ownPod says whether the pod is bound to the node.
func (q *question) ownPod() bool {
	version, ok := q.caches.Pods.Get(q.caches.Prefix + "pods/" + q.Namespace + "/" + q.Attributes.Name)
	if !ok {
		return false
	}
	node, _ := version.Field("spec.nodeName")
	return node == q.node
}

func (q *question) secret() bool {
	if q.anyPod(func(r *refs) bool { return r.namespace == q.Namespace && slices.Contains(r.secrets, q.Attributes.Name) }) {
		return true
	}
	return q.anyVolume(func(volume *corev1.PersistentVolume) bool {
		return slices.Contains(volumeSecrets(volume), secretKey{q.Namespace, q.Attributes.Name})
	})
}

func (q *question) claim() bool {
	return q.anyPod(func(r *refs) bool { return r.namespace == q.Namespace && slices.Contains(r.claims, q.Attributes.Name) })
}

func (q *question) volume() bool {
	return q.anyVolume(func(volume *corev1.PersistentVolume) bool { return volume.Name == q.Attributes.Name })
}

// anyVolume says whether some volume that is bound to a claim of the node's pods is what yes looks for. Both the claim and the
// volume have to say that they belong together.
func (q *question) anyVolume(yes func(*corev1.PersistentVolume) bool) bool {
	return q.anyPod(func(r *refs) bool {
		return slices.ContainsFunc(r.claims, func(name string) bool {
			claim := read[*corev1.PersistentVolumeClaim](q.caches.PersistentVolumeClaims, q.caches.Prefix+"persistentvolumeclaims/"+r.namespace+"/"+name)
			if claim == nil || claim.Spec.VolumeName == "" {
				return false
			}
			volume := read[*corev1.PersistentVolume](q.caches.PersistentVolumes, q.caches.Prefix+"persistentvolumes/"+claim.Spec.VolumeName)
			if volume == nil || volume.Spec.ClaimRef == nil {
				return false
			}
			ref := volume.Spec.ClaimRef
			return ref.Namespace == claim.Namespace && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID) && yes(volume)
		})
	})
}

func (q *question) attachment() bool {
	attachment := read[*storagev1.VolumeAttachment](q.caches.VolumeAttachments, q.caches.Prefix+"volumeattachments/"+q.Attributes.Name)
	return attachment != nil && attachment.Spec.NodeName == q.node
}

// nodeNameOf says whether the named object of a cluster-wide resource has this node in spec.nodeName.
func (q *question) nodeNameOf(cache *watchcache.Cache, path string) bool {
	if cache == nil {
		return false
	}
	version, ok := cache.Get(q.caches.Prefix + path + "/" + q.Attributes.Name)
	if !ok {
		return false
	}
	node, _ := version.Field("spec.nodeName")
	return node == q.node
}

// read returns an object from a cache; nil if it is not there or cannot be read.
func read[T comparable](cache *watchcache.Cache, key string) T {
	var none T
	version, ok := cache.Get(key)
	if !ok {
		return none
	}
	obj, err := version.Decode()
	if err != nil {
		return none
	}
	typed, _ := obj.(T)
	return typed
}
