// Package accounttoken has what the API server and the controllers both know of the tokens of service accounts: the keys by which they
// are signed and checked (keys.go), and the tokens that Secrets of type kubernetes.io/service-account-token hold (legacy.go).
//
// Tokens in Secrets name the issuer kubernetes/serviceaccount, never expire, and are good as long as their Secret holds them. The
// controller that fills Secrets makes them, the API server checks them and writes into labels of the Secret when they are used.
//
// Follows upstream's pkg/serviceaccount and KEP-2799.
package accounttoken
