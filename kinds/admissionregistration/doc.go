// Package admissionregistration has the rows of group admissionregistration.k8s.io: who is asked before something is
// written, webhooks and policies in CEL. CEL expressions are parsed here; that their types fit is found out where they are
// compiled for use.
package admissionregistration
