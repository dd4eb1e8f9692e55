// Package coordination has the rows of API group coordination.k8s.io.
package coordination
