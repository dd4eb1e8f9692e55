// Package storagemigration has the row of group storagemigration.k8s.io: orders to write the objects of a resource anew,
// in the version in which they are stored now (KEP-4192). Whoever carries them out is a controller.
package storagemigration
