// Package runtimes is the module of what runs containers: the pinned container runtime and the images that come with Vigil.
//
// It is a module of its own, so that nothing of containerd or runc is linked into the vigil binary, or decides about the
// versions of the libraries there. Its tool lines pin containerd, its shim, ctr, runc and the CNI plug-ins; its programs
// are what the images are made of:
//
//   - pause: the process of a pod's sandbox;
//   - demo: a small web server that says who it is, with sub-commands for tests;
//   - ociimage: makes an archive in OCI layout of a static program.
//
// `make runtime` in the repository's root builds all of it into bin/runtime.
package runtimes
