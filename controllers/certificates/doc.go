// Package certificates answers CertificateSigningRequests: it approves those that kubelets make for themselves ([Approver]),
// signs what was approved for the built-in signers ([Signer]), and removes requests that nobody needs any more ([Cleaner]).
// What is asked for under other signer names is left to others.
//
// Follows upstream's pkg/controller/certificates: approver, signer (with authority), cleaner.
package certificates
