// Package plugins lists the admission plug-ins in upstream's order and makes a chain of those that are on. A plug-in is a file
// here; the larger ones are packages below (noderestriction, podsecurity, quota). Texts and codes are upstream's.
//
// Start reading at registry.go.
package plugins
