// Package storage has the rows of API group storage.k8s.io.
package storage
