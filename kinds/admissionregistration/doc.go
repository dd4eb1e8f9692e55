// Package admissionregistration has the rows of group admissionregistration.k8s.io: who is asked before something is
// written, webhooks and policies in CEL. Expressions are compiled by upstream's library, with the names and types that they will
// have when they are evaluated; objects are of unknown types there.
package admissionregistration
