// Package attachdetach has the volumes of CSI drivers attached to the nodes whose pods use them, and detached afterwards. It writes
// VolumeAttachments; a driver's external attacher does what they say and reports in their status. The kubelet waits for them under the same
// names (Name). Drivers whose CSIDriver says attachRequired: false, and volumes that are part of a pod, need none.
//
// A volume that may be used on one node only (neither ReadWriteMany nor ReadOnlyMany) gets no second VolumeAttachment before the first is
// gone. A node keeps a volume that its status.volumesInUse names, until the node says otherwise, has the taint
// node.kubernetes.io/out-of-service, or has not been ready for six minutes since the last pod went. The status of a node names what is
// attached to it (volumesAttached); a volume leaves it before it is detached.
//
// What is attached is read from the VolumeAttachments, so a controller that starts finds what another left. Follows upstream's
// pkg/controller/volume/attachdetach and pkg/volume/csi/csi_attacher.go, with events instead of its loop every 100 ms.
package attachdetach
