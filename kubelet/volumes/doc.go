// Package volumes makes the volumes of the pods of a node: it is kubelet.Volumes.
//
// Below the kubelet's root directory, in upstream's layout, it keeps
//
//	pods/UID/
//	├── volumes/PLUGIN/NAME            a volume; NAME is the pod's name for it, or the PersistentVolume's
//	├── volumeDevices/PLUGIN/NAME      symlink to the device of a volume with volumeMode Block
//	└── volume-subpaths/VOLUME/CONTAINER/N   bind mount of what a container's Nth volumeMount with a subPath shows
//
// where PLUGIN is the name of a plug-in with "~" for "/": kubernetes.io~empty-dir.
//
// # What is promised
//
// The disk is what counts. Unmount needs nothing but what is there: the directories and the kernel's table of mounts, so that it
// works the same for the pods of a process that is no more. What is mounted is unmounted first, and a directory below which anything
// is still mounted is never emptied: [vigil/kubelet/volumes/mount.RemoveAll] stops at every mount.
//
// Mount may be called any number of times, also for volumes that an earlier process has made, and leaves alone what running
// containers use. Contents that come from objects change at once for all who look (a symlink is replaced), and only if they differ.
//
// No path inside of a volume, whatever symlinks containers leave there, leads out of it: subPaths are resolved by the kernel
// (openat2, RESOLVE_BENEATH), and what was opened is what is mounted.
//
// # What is not promised
//
// Limits: that an emptyDir on disk does not outgrow its sizeLimit is the eviction manager's to see, by Usage.
//
// # Start reading
//
// [Manager.Mount] in manager.go; plugin.go for adding a type of volume.
package volumes
