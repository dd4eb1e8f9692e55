// Package node authorizes kubelets: user system:node:NAME in group system:nodes. What a kubelet may read or change follows from
// the pods that are bound to its node: their secrets, config maps, claims, volumes and service accounts, and nothing else.
//
// There is no graph to keep. The pods of a node come from the watch cache's index at each question; what each of them refers
// to is worked out when its version is new and remembered until it changes. So a decision is as fresh as the cache, and nodes
// that ask nothing cost nothing.
//
// Behaviour: upstream's plugin/pkg/auth/authorizer/node (KEP-4601 for selectors). Start with [Authorizer.Authorize].
package node
