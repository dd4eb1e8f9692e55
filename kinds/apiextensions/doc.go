// Package apiextensions has the row of group apiextensions.k8s.io: the definitions of custom resources. What a definition
// does once it is there, the names it is given and the requests it answers, is not the row's business.
//
// Definitions are checked in upstream's internal version, into which what all versions have in common has been moved up
// (spec.validation instead of spec.versions[*].schema), since that is what the paths of errors name. Schemas are held to the
// rules of structural schemas by upstream's library. The types and costs of validation rules in CEL and the values of
// defaults are not checked here.
package apiextensions
