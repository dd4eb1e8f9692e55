// Package authentication has the rows of group authentication.k8s.io, which are questions about who somebody is: none is
// stored. What answers them is package apiserver/accessreview. It also has the rules for the body of serviceaccounts/token.
package authentication
