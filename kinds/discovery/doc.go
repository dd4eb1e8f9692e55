// Package discovery has the rows of API group discovery.k8s.io.
package discovery
