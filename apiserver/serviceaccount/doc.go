// Package serviceaccount issues and checks the tokens of service accounts: signed JWTs as kube-apiserver makes them, so that
// tokens of either are good at the other when they share keys and issuer.
//
// A token names its service account and, when it was asked for, the pod, node or secret whose end is also the token's
// (its bound object). [Issuer] answers POSTs to serviceaccounts/token, [Verifier] says whose a bearer token is and that
// all it is bound to still exists, and [Documents] are the OpenID documents by which others can check tokens.
//
// It follows upstream's pkg/serviceaccount and KEP-1205, KEP-2799, KEP-4193.
package serviceaccount
