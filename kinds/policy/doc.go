// Package policy has the kinds of the API group policy: PodDisruptionBudget, and the body of an eviction, which is POSTed to a
// subresource of pods.
package policy
