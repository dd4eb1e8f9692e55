// Package authorization has the rows of group authorization.k8s.io, which are questions about what somebody may do: none
// is stored. What answers them is package apiserver/accessreview.
package authorization
