// Package request says what an HTTP request asks of the API: which verb on which resource ([ParsePath]), and with
// which options ([ParseList]). It looks only at the method, the path and the query; it reads no body, knows no kind and
// answers nothing itself.
//
// The rules are upstream's (docs/requests.md section 1): the path parser follows k8s.io/apiserver/pkg/endpoints/request,
// the option checks apimachinery's internalversion/validation. Parsing an ordinary path allocates nothing: every
// string of an [Info] is a part of the path.
package request
