// Package flowcontrol has the rows of group flowcontrol.apiserver.k8s.io: how requests are told apart and how much of the
// server each sort may have.
package flowcontrol
