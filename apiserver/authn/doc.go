// Package authn finds out who is calling, by what kube-apiserver accepts: the headers of a front proxy, a client certificate
// (common name is the user, organizations are the groups), a bearer token. Whether the caller may do what it asks is package
// authz's business; service account tokens are package serviceaccount's, and what is asked of others (OpenID Connect, webhooks)
// package external's.
//
// A client certificate is checked with the first request of its connection, and again when the authorities change; each
// further request costs two pointer comparisons. Start with [Chain.Authenticate].
package authn
