// Package node has the rows of API group node.k8s.io.
package node
