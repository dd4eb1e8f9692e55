// Package noderestriction is the admission plug-in NodeRestriction: it keeps kubelets (users system:node:NAME in group system:nodes) to
// their own node. The node authorizer decides which objects a kubelet may reach; this plug-in looks at what it wants to write into
// them. Everybody else's requests pass.
//
// Follows upstream's plugin/pkg/admission/noderestriction.
package noderestriction
