// Package accessreview answers the kinds that are questions and never stored: who is this (TokenReview, SelfSubjectReview) and
// what may they do (SubjectAccessReview and its relatives). The answers come from the server's own authenticators and
// authorizer. Start with [Hooks].
package accessreview
