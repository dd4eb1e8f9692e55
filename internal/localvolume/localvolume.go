// Package localvolume is what the provisioner of local volumes (controllers/localprovisioner) and the nodes that have them (kubelet/localvolumes)
// say to each other. They meet in the Node object alone, so that a node needs no right on volumes of others:
//
//	annotation of the Node            written by    means
//	vigil.dev/local-volumes           node          the directory in which its volumes are, one directory each
//	vigil.dev/remove-local-volumes    provisioner   names of volumes that are to be removed
//	vigil.dev/removed-local-volumes   node          which of these are gone from its disk
//
// A volume's directory is made by the node that mounts it first, and removed when the volume is released and its reclaim policy says Delete; the
// PersistentVolume goes after the directory. Names are those of PersistentVolumes that the provisioner has made, "pvc-" and the uid of the
// claim, so none ever comes twice.
package localvolume

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
)

// Provisioner is the name of the provisioner in StorageClasses.
const Provisioner = "vigil.dev/local"

// Annotations of Nodes.
const (
	DirAnnotation     = "vigil.dev/local-volumes"
	RemoveAnnotation  = "vigil.dev/remove-local-volumes"
	RemovedAnnotation = "vigil.dev/removed-local-volumes"
)

// NodeAnnotation of a PersistentVolume names its node.
const NodeAnnotation = "vigil.dev/node"

// Name is the name of the volume that is made for a claim.
func Name(claim types.UID) string { return "pvc-" + string(claim) }

// IsName says whether a name may be that of a volume of this provisioner. Such a name is a single element of a path.
func IsName(name string) bool { return names.MatchString(name) }

var names = regexp.MustCompile(`^pvc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// In says whether a volume is one of this provisioner's in a node's directory.
func In(dir string, pv *corev1.PersistentVolume) bool {
	return dir != "" && pv.Annotations[volume.AnnDynamicallyProvisioned] == Provisioner && IsName(pv.Name) &&
		pv.Spec.Local != nil && pv.Spec.Local.Path == filepath.Join(dir, pv.Name)
}

// Names reads an annotation that lists volumes. What is no name is left out.
func Names(annotation string) []string {
	return slices.DeleteFunc(strings.Split(annotation, ","), func(name string) bool { return !IsName(name) })
}

// Annotation is the list as Names reads it, sorted.
func Annotation(volumes []string) string {
	return strings.Join(slices.Sorted(slices.Values(volumes)), ",")
}
