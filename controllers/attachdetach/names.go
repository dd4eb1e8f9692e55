package attachdetach

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Name is the name of the VolumeAttachment for a driver's volume on a node.
func Name(driver, handle, node string) string {
	sum := sha256.Sum256([]byte(handle + driver + node))
	return namePrefix + hex.EncodeToString(sum[:])
}

const namePrefix = "csi-"

// uniquePrefix begins the names of CSI volumes in the status of nodes: kubernetes.io/csi/<driver>^<handle>.
const uniquePrefix = "kubernetes.io/csi/"

// uniqueName is the name of a volume in the status of nodes.
func uniqueName(driver, handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(uniquePrefix + driver + "^" + handle)
}

// isFor says whether a volume in the status of a node is that of a VolumeAttachment. It needs no PersistentVolume.
func isFor(volume corev1.UniqueVolumeName, node, attachment string) bool {
	rest, ok := strings.CutPrefix(string(volume), uniquePrefix)
	if !ok {
		return false
	}
	driver, handle, ok := strings.Cut(rest, "^")
	return ok && Name(driver, handle, node) == attachment
}
