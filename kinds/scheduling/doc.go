// Package scheduling has the rows of API group scheduling.k8s.io.
package scheduling
