// Package apiextensions has the row of group apiextensions.k8s.io: the definitions of custom resources. What a definition
// does once it is there, the names it is given and the requests it answers, is not the row's business: conditions (Established,
// NamesAccepted) are written by whoever serves what is defined, and are absent as long as nobody does.
//
// Definitions are checked by upstream's library, in upstream's internal version, into which what all versions have in
// common has been moved up (spec.validation instead of spec.versions[*].schema): that is what the paths of errors name.
package apiextensions
