// Package store keeps encoded objects in etcd, embedded in the process or remote, behind one concrete type.
//
// It knows keys, values and revisions, nothing about kinds. Nothing above it talks to etcd.
package store
