// Package openapi describes the API to clients: /openapi/v3 with a document for each group and version (KEP-2896), and
// one merged Swagger 2.0 document at /openapi/v2 for older ones. kubectl reads them to check what it sends, to know how lists
// merge, and to explain fields.
//
// Paths come from the table of kinds (paths.go), schemas from the Go types by reflection (schema.go): names, JSON tags,
// patch strategies, and the descriptions that k8s.io/api generates; what only the sources' comments say (list types, enums, defaults) is in the
// generated file of internal/markers. Documents are made when first asked for. The HTTP
// side (hashes, ETags, redirects, protobuf) is kube-openapi's.
package openapi
