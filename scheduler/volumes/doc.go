// Package volumes has the claims of pods decide with where pods run: upstream's plug-ins VolumeBinding, VolumeRestrictions (ReadWriteOncePod) and
// VolumeZone.
//
//	Plan                  what a pod's claims are: bound, or waiting for the scheduler (WaitForFirstConsumer). Others keep the pod waiting.
//	Plan.Fits(node)       bound volumes can be used there; for each waiting claim there is a volume, or one can be provisioned
//	Plan.Assume(node)     volumes and nodes that are chosen are out of reach for other pods, before the API knows
//	Plan.Bind             reserves volumes (spec.claimRef), tells provisioners the node (annotation volume.kubernetes.io/selected-node), and
//	                      waits until the binder has bound all claims
//	Plan.Release          ends what Assume began
//
// The storage capacity that CSI drivers publish (CSIStorageCapacity) and the number of volumes that a node can attach are not looked at.
package volumes
