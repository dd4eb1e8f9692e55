// Package discovery tells clients which groups, versions and resources the server has, in both forms: one document for
// each group and version (kinds APIVersions, APIGroupList, APIGroup, APIResourceList), and the aggregated documents at
// /api and /apis that modern clients ask for first (KEP-3352).
//
// [Build] makes all documents from the table of kinds; [Documents.ServeHTTP] serves them. Documents never change: when
// the set of resources does, build new ones and swap. What the change does not concern is shared by both, encoded forms included.
package discovery
