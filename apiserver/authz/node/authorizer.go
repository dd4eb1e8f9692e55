package node

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/authz/bootstrappolicy"
	"vigil/apiserver/authz/rbac"
	"vigil/object"
	"vigil/watchcache"
)

const prefix = "system:node:"

// Caches are what decisions are made from. ResourceSlices may be nil, if they are not served.
type Caches struct {
	Pods, PersistentVolumeClaims, PersistentVolumes, VolumeAttachments, ResourceSlices *watchcache.Cache
	Prefix                                                                             string // of storage keys, with a slash at the end
}

// Authorizer decides for kubelets and has no opinion on others.
type Authorizer struct {
	caches Caches
	pods   *nodePods
	rules  *rbac.Rules // what needs no look at objects
}

// New returns an authorizer over the caches of the server.
func New(caches Caches) *Authorizer {
	return &Authorizer{
		caches: caches,
		pods:   &nodePods{cache: caches.Pods, nodes: map[string]map[*object.Version]*refs{}},
		rules:  rbac.Compile(bootstrappolicy.NodeRules()),
	}
}

// Name returns the node of a kubelet's identity; "" for others. A user of that name who is not in the group is none.
func Name(user *authn.User) string {
	name, ok := strings.CutPrefix(user.Name, prefix)
	if !ok || !user.InGroup(authn.GroupNodes) {
		return ""
	}
	return name
}

// Authorize implements [authz.Authorizer]; allowed false is no opinion, with the reason why a kubelet may not.
func (a *Authorizer) Authorize(_ context.Context, attr *authz.Attributes) (allowed bool, reason string, err error) {
	node := Name(attr.User)
	if node == "" {
		if attr.User.Name == prefix && attr.User.InGroup(authn.GroupNodes) {
			return false, fmt.Sprintf("unknown node for user %q", attr.User.Name), nil
		}
		return false, "", nil
	}
	if attr.Resource != "" {
		q := question{Authorizer: a, Attributes: attr, node: node}
		if decided, allowed, reason := q.byObject(); decided {
			return allowed, reason, nil
		}
	}
	return a.rules.Allow(attr), "", nil
}

// question is one request of a kubelet.
type question struct {
	*Authorizer
	*authz.Attributes
	node string
}

// byObject decides what depends on objects; decided is false for the rest.
func (q *question) byObject() (decided, allowed bool, reason string) {
	switch q.Group + "/" + q.Resource {
	case "/secrets":
		reason = q.named(q.secret)
	case "/configmaps":
		reason = q.named(func() bool {
			return q.anyPod(func(r *refs) bool {
				return r.namespace == q.Namespace && slices.Contains(r.configMaps, q.Attributes.Name)
			})
		})
	case "/persistentvolumeclaims":
		if q.Subresource != "" {
			reason = q.status(q.claim)
		} else {
			reason = q.get(q.claim)
		}
	case "/persistentvolumes":
		reason = q.get(q.volume)
	case "storage.k8s.io/volumeattachments":
		reason = q.get(q.attachment)
	case "resource.k8s.io/resourceclaims":
		reason = q.get(func() bool {
			return q.anyPod(func(r *refs) bool {
				return r.namespace == q.Namespace && slices.Contains(r.resourceClaims, q.Attributes.Name)
			})
		})
	case "resource.k8s.io/resourceslices":
		reason = q.slices()
	case "/serviceaccounts":
		reason = q.account()
	case "coordination.k8s.io/leases":
		reason = q.lease()
	case "storage.k8s.io/csinodes":
		reason = q.csiNode()
	case "/nodes":
		reason = q.ownNode()
	case "/pods":
		reason = q.pod()
	case "certificates.k8s.io/podcertificaterequests":
		reason = q.podCertificate()
	default:
		return false, false, ""
	}
	return true, reason == "", reason
}

func (q *question) related(yes bool) string {
	if yes {
		return ""
	}
	return fmt.Sprintf("no relationship found between node '%s' and this object", q.node)
}

// named allows reads of one object that is related to the node.
func (q *question) named(related func() bool) string {
	switch {
	case !slices.Contains([]string{"get", "list", "watch"}, q.Verb):
		return "can only read resources of this type"
	case q.Subresource != "":
		return "cannot read subresource"
	case q.Namespace == "":
		return "can only read namespaced object of this type"
	case q.Attributes.Name == "":
		return "No Object name found"
	}
	return q.related(related())
}

// get allows to get an object that is related to the node.
func (q *question) get(related func() bool) string {
	switch {
	case q.Verb != "get":
		return "can only get individual resources of this type"
	case q.Subresource != "":
		return "cannot get subresource"
	case q.Attributes.Name == "":
		return "No Object name found"
	}
	return q.related(related())
}

func (q *question) status(related func() bool) string {
	switch {
	case q.Verb != "update" && q.Verb != "patch":
		return "can only get/update/patch this type"
	case q.Subresource != "status":
		return "can only update status subresource"
	case q.Attributes.Name == "":
		return "No Object name found"
	}
	return q.related(related())
}

func (q *question) account() string {
	own := func() bool {
		return q.anyPod(func(r *refs) bool { return r.namespace == q.Namespace && r.serviceAccount == q.Attributes.Name })
	}
	if q.Subresource == "" && q.Verb == "get" {
		return q.get(own)
	}
	if q.Verb != "create" || q.Subresource != "token" {
		return "can only create tokens for individual service accounts"
	}
	if q.Attributes.Name == "" {
		return "No Object name found"
	}
	return q.related(own())
}

var objectVerbs = []string{"get", "create", "update", "patch", "delete"}

func (q *question) lease() string {
	switch {
	case !slices.Contains(objectVerbs, q.Verb):
		return "can only get, create, update, patch, or delete a node lease"
	case q.Namespace != corev1.NamespaceNodeLease:
		return fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case q.Verb != "create" && q.Attributes.Name != q.node:
		return "can only access node lease with the same name as the requesting node"
	}
	return ""
}

func (q *question) csiNode() string {
	switch {
	case q.Subresource != "":
		return "cannot authorize CSINode subresources"
	case !slices.Contains(objectVerbs, q.Verb):
		return "can only get, create, update, patch, or delete a CSINode"
	case q.Verb != "create" && q.Attributes.Name != q.node:
		return "can only access CSINode with the same name as the requesting node"
	}
	return ""
}

func (q *question) ownNode() string {
	switch {
	case q.Subresource == "" && slices.Contains([]string{"create", "update", "patch"}, q.Verb):
		return "" // admission looks at what
	case q.Subresource == "" && slices.Contains([]string{"get", "list", "watch"}, q.Verb):
		if q.Attributes.Name == q.node {
			return ""
		}
		return fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", q.node, q.Attributes.Name)
	case q.Subresource == "status" && (q.Verb == "update" || q.Verb == "patch"):
		return ""
	}
	return fmt.Sprintf("node '%s' cannot %s nodes", q.node, q.Verb)
}

func (q *question) pod() string {
	switch {
	case q.Subresource == "" && q.Verb == "get":
		return q.get(q.ownPod)
	case q.Subresource == "" && (q.Verb == "list" || q.Verb == "watch"):
		if q.Attributes.Name != "" && q.Namespace != "" && q.ownPod() || q.selects("spec.nodeName") {
			return ""
		}
		return "can only list/watch pods with spec.nodeName field selector"
	case q.Subresource == "" && (q.Verb == "create" || q.Verb == "delete"),
		q.Subresource == "status" && (q.Verb == "update" || q.Verb == "patch"),
		q.Subresource == "eviction" && q.Verb == "create":
		return "" // admission looks at which
	}
	return fmt.Sprintf("node '%s' cannot %s %s", q.node, q.Verb, strings.TrimSuffix("pods/"+q.Subresource, "/"))
}

func (q *question) podCertificate() string {
	switch {
	case q.Subresource != "":
		return "cannot authorize PodCertificateRequest subresources"
	case q.Verb == "create":
		return ""
	case (q.Verb == "list" || q.Verb == "watch") && q.selects("spec.nodeName"):
		return ""
	case q.Verb == "list" || q.Verb == "watch":
		return "can only list/watch podcertificaterequests with spec.nodeName field selector"
	}
	return "can only create, list and watch podcertificaterequests"
}

func (q *question) slices() string {
	switch {
	case q.Subresource != "":
		return "cannot authorize ResourceSlice subresources"
	case q.Verb == "create":
		return ""
	case slices.Contains([]string{"list", "watch", "deletecollection"}, q.Verb):
		if q.selects("spec.nodeName") {
			return ""
		}
		return "can only list/watch/deletecollection resourceslices with spec.nodeName field selector"
	case slices.Contains(objectVerbs, q.Verb):
		return q.related(q.nodeNameOf(q.caches.ResourceSlices, "resourceslices"))
	}
	return "can only get, create, update, patch, or delete a ResourceSlice"
}

// selects says whether the field selector lets only this node's objects through.
func (q *question) selects(label string) bool {
	if q.Fields == nil {
		return false
	}
	value, ok := q.Fields.RequiresExactMatch(label)
	return ok && value == q.node
}
