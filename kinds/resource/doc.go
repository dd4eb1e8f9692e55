// Package resource has the rows of group resource.k8s.io: dynamic resource allocation (KEP-4381). Drivers publish
// devices in ResourceSlices, administrators group them in DeviceClasses, pods ask for them in ResourceClaims.
//
// Fields of features that are off by default in 1.37 (derived attributes, compatibility groups, list attributes, node
// allocatable resources, optional node operations, the partition type) are dropped from new objects, as upstream does; they stay in stored
// objects that have them. That adminAccess needs a label on the namespace is not the rows' business: they see no other object.
package resource
