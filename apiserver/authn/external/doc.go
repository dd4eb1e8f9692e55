// Package external knows tokens that others issue: by OpenID Connect (--oidc-*, or the jwt part of an
// AuthenticationConfiguration) and by asking a webhook (--authentication-token-webhook-*). It joins k8s.io/apiserver's
// authenticators to package authn.
//
// Start with [New] and [Tokens.Run]; before Run nothing is known.
package external
