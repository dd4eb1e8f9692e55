package noderestriction

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/admission"
	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/kinds"
)

// Plugin is NodeRestriction.
type Plugin struct {
	Reader admission.Reader
	// Authorizer decides about audiences of tokens that no pod asks for; nil: such tokens are refused.
	Authorizer authz.Authorizer
}

var (
	pods           = schema.GroupResource{Resource: "pods"}
	nodes          = schema.GroupResource{Resource: "nodes"}
	claims         = schema.GroupResource{Resource: "persistentvolumeclaims"}
	volumes        = schema.GroupResource{Resource: "persistentvolumes"}
	accounts       = schema.GroupResource{Resource: "serviceaccounts"}
	leases         = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	csiNodes       = schema.GroupResource{Group: "storage.k8s.io", Resource: "csinodes"}
	drivers        = schema.GroupResource{Group: "storage.k8s.io", Resource: "csidrivers"}
	resourceSlices = schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceslices"}
	requests       = schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
)

// rules are what is looked at, by resource.
var rules = map[schema.GroupResource]func(*check) error{
	pods:           (*check).pod,
	nodes:          (*check).node,
	claims:         (*check).claim,
	accounts:       (*check).token,
	leases:         (*check).lease,
	csiNodes:       (*check).csiNode,
	resourceSlices: (*check).resourceSlice,
	requests:       (*check).signingRequest,
}

// check is one request of a kubelet.
type check struct {
	*admission.Attributes
	ctx    context.Context // of the request
	plugin *Plugin
	name   string // of the node
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return "NodeRestriction" }

// Handles implements admission.Plugin.
func (*Plugin) Handles(k *kinds.Kind, _ string, op admission.Operation) bool {
	return op != admission.Connect && rules[k.GroupResource()] != nil
}

// Admit implements admission.Mutator. It changes nothing: upstream's refuses in this phase, before other plug-ins are asked.
func (p *Plugin) Admit(ctx context.Context, a *admission.Attributes) error {
	name, ok := strings.CutPrefix(a.User.Name, "system:node:")
	if !ok || !a.User.InGroup(authn.GroupNodes) {
		return nil
	}
	if name == "" {
		return admission.Forbidden(a, fmt.Errorf("could not determine node from user %q", a.User.Name))
	}
	return rules[a.Resource()](&check{Attributes: a, ctx: ctx, plugin: p, name: name})
}

func (c *check) refuse(format string, args ...any) error {
	return admission.Forbidden(c.Attributes, fmt.Errorf(format, args...))
}

// unexpected refuses an object of another type than the resource has.
func (c *check) unexpected(obj any) error { return c.refuse("unexpected type %T", obj) }
