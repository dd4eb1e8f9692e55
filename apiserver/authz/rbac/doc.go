// Package rbac decides by roles and their bindings (group rbac.authorization.k8s.io).
//
// Roles and bindings are compiled, as they change, into an immutable index: from a subject to the roles it holds in the
// cluster and in each namespace, and from a role to what it allows, by API group and resource. A decision follows pointers
// from the caller's name and groups; what it costs depends on how many roles the caller holds where it asks, not on how many
// bindings there are.
//
// Start with [Authorizer.Authorize]; [Authorizer.Follow] keeps the index as the watch caches are.
package rbac
