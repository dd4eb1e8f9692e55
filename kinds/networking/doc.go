// Package networking has the rows of API group networking.k8s.io.
package networking
