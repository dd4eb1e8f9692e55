// Package componentserver serves what is asked of a running controller manager or scheduler over TLS: /healthz, /livez and /readyz with their
// checks, /metrics, /metrics/slis, /configz and profiles.
//
// Health is for everybody. For all else the API server says who is calling, by a token, and who may, by SubjectAccessReviews about paths;
// client certificates and front proxies are checked here, by authorities that are given or that the cluster publishes in the ConfigMap
// extension-apiserver-authentication. Members of system:masters may do everything. Follows upstream's delegating authentication and
// authorization (k8s.io/apiserver pkg/server/options).
package componentserver
