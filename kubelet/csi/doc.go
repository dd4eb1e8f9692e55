// Package csi is the node's side of the Container Storage Interface, version 1: drivers that serve on sockets of this node are
// registered, and the volumes of pods that name one are made by it.
//
// A [Plugin] is a plug-in of package volumes. Its Run watches the directory plugins_registry, where drivers leave a socket that tells
// who they are (k8s.io/kubelet/pkg/apis/pluginregistration/v1), and keeps the node's CSINode and the topology labels of its Node. SetUp
// waits for the VolumeAttachment where the driver wants volumes attached, has a volume staged once for the node, and published for each
// pod; TearDown undoes that from what lies on the disk (vol_data.json), as another process may have left it:
//
//	plugins/kubernetes.io/csi/DRIVER/sha256(HANDLE)/globalmount           the staged volume, with vol_data.json beside
//	pods/UID/volumes/kubernetes.io~csi/NAME/mount                         the published volume, with vol_data.json beside
//	plugins/kubernetes.io/csi/volumeDevices/{staging,publish,NAME/data}   the same for volumeMode Block
//	pods/UID/volumeDevices/kubernetes.io~csi/NAME                         a symlink to the published device
//
// Paths, keys and names are upstream's (pkg/volume/csi), so that either kubelet finds the other's volumes.
package csi
