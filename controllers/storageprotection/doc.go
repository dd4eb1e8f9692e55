// Package storageprotection takes the finalizers away that hold claims, volumes and classes of volume attributes as long as they are
// in use, once they are being deleted and nobody uses them any more; and gives them to those that have come without. New ones get
// them from the API server (admission plug-in StorageObjectInUseProtection).
//
// A claim is in use by every pod with a node that names it, a volume by the claim it is bound to, a class by the claims and volumes that
// have it or are on the way to it.
//
// Follows upstream's pkg/controller/volume/pvcprotection, pvprotection and vacprotection.
package storageprotection
