// Package apiregistration has the row of group apiregistration.k8s.io: who serves which version of which group.
package apiregistration
