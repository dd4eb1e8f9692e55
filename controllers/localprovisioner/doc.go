// Package localprovisioner makes volumes for claims whose class is of the provisioner vigil.dev/local: directories on the disk of the node that
// the scheduler has selected for the claim's first pod. Such a volume can be used on that node alone.
//
// It makes and deletes PersistentVolumes; the directories are the node's (kubelet/localvolumes), and internal/localvolume says how the two
// meet. A volume has a finalizer until its node says that the directory is gone. With a Node that is no more, its volumes go without that:
// the disk went with it, or somebody has to look at it.
//
// A claim's size is not enforced. Events and annotations are those of the external provisioners of CSI drivers
// (kubernetes-sigs/sig-storage-lib-external-provisioner).
package localprovisioner
