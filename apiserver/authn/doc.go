// Package authn finds out who is calling. It answers only from what the connection proves: a client certificate that
// the client CA has signed (common name is the user, organizations are the groups). Whether the caller may do what it
// asks is package authz's business.
//
// Start with [X509.Authenticate].
package authn
