// Package localvolumes is a node's part of the built-in provisioner of local volumes: it tells in which directory they are, and removes those
// that the provisioner says are no longer wanted. Package volumes makes them when a pod first mounts them. How both sides speak with each
// other is in internal/localvolume.
//
// It removes what is directly in its own directory and has the name of a volume, nothing else: it never follows a symlink out of there.
// Capacities are not enforced: a volume may grow until the disk is full.
package localvolumes
