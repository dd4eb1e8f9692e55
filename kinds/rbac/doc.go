// Package rbac has the rows of API group rbac.authorization.k8s.io. What a user may put into a role that it does not
// hold itself is no matter of validation: the server's authorization refuses that.
package rbac
