// Package persistentvolume binds PersistentVolumeClaims to PersistentVolumes, and says what becomes of volumes whose claim is gone.
//
//	claim   Pending --bound--> Bound --volume gone or another's--> Lost
//	volume  Available <--> Bound --claim gone--> Released --cannot be reclaimed--> Failed
//
// A binding is two pointers, written one after the other: the volume's spec.claimRef first, which reserves it, then the claim's
// spec.volumeName. Whatever is missing after a crash is written by the next look at either. Who wrote a pointer is told by the annotation
// pv.kubernetes.io/bound-by-controller: without it a person has, and the pointer is left when a binding is undone.
//
// Nothing is made or deleted here: a claim without a volume gets the annotation volume.kubernetes.io/storage-provisioner, and a
// provisioner (package localprovisioner, or that of a CSI driver) does the rest. There are no volume plug-ins that delete or recycle.
//
// Follows upstream's pkg/controller/volume/persistentvolume. Unlike there, a claim that waits is looked at when a volume or a class that
// may suit it changes, not every 15 seconds.
package persistentvolume
