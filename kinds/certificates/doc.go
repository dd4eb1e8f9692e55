// Package certificates has the rows of API group certificates.k8s.io. That only those may approve, sign and attest who
// have the right for the signer is not checked here: admission does that.
package certificates
