// Package bootstrappolicy is the roles and bindings that every cluster starts with, as data: those for people (cluster-admin,
// admin, edit, view), for everybody (system:discovery ...), for components and for each controller.
//
// Source: upstream's plugin/pkg/auth/authorizer/rbac/bootstrappolicy; rules for features that are not generally available are
// left out.
package bootstrappolicy
