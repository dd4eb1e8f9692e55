package garbagecollector

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"vigil/controllers/internal/served"
	"vigil/informer"
)

const (
	uidIndex   = "uid"
	ownerIndex = "owner-uid"
)

// ignored are resources whose objects have no owners and go by themselves.
var ignored = map[schema.GroupResource]bool{
	{Resource: "events"}:                         true,
	{Group: "events.k8s.io", Resource: "events"}: true,
}

// resource is one resource whose objects are followed.
type resource struct {
	gvr        schema.GroupVersionResource
	kind       string
	namespaced bool
	informer   *informer.Informer
	handler    *informer.Registration
	stop       context.CancelFunc // ends the informer; nil for a shared one
}

// resources is the graph: all followed resources, and where to look for owners.
type resources struct {
	all    []*resource
	byName map[string]*resource // by GroupResource
	byKind map[schema.GroupKind]*resource
	served map[schema.GroupVersionKind]served.Resource // of all kinds, followed or not
}

// keyOf is an object's key in the queue: its resource and its uid, so that an object that takes the name of one that has
// gone is not mistaken for it.
func keyOf(r *resource, uid types.UID) types.NamespacedName {
	return types.NamespacedName{Namespace: r.gvr.GroupResource().String(), Name: string(uid)}
}

// find returns the object of a key, nil when it is gone.
func (g *resources) find(key types.NamespacedName) (*resource, *informer.Object) {
	r := g.byName[key.Namespace]
	if r == nil {
		return nil, nil
	}
	return r, r.byUID(key.Name)
}

func (r *resource) byUID(uid string) *informer.Object {
	found, err := r.informer.Indexer().ByIndex(uidIndex, uid)
	if err != nil || len(found) == 0 {
		return nil
	}
	return found[0]
}

// owner returns the object that a reference of an object in namespace means, nil when the caches do not have it.
func (g *resources) owner(apiVersion, kind, name, uid, namespace string) (*resource, *informer.Object) {
	group, _, ok := strings.Cut(apiVersion, "/")
	if !ok {
		group = ""
	}
	r := g.byKind[schema.GroupKind{Group: group, Kind: kind}]
	if r == nil {
		return nil, nil
	}
	if !r.namespaced {
		namespace = ""
	} else if namespace == "" {
		return r, nil
	}
	o, ok := r.informer.Indexer().Get(namespace, name)
	if !ok || string(o.UID()) != uid {
		return r, nil
	}
	return r, o
}

// dependent is an object that refers to the one in question.
type dependent struct {
	*resource
	*informer.Object
}

// dependents returns the objects that refer to a uid.
func (g *resources) dependents(uid types.UID) []dependent {
	var all []dependent
	for _, r := range g.all {
		objects, err := r.informer.Indexer().ByIndex(ownerIndex, string(uid))
		if err != nil {
			continue
		}
		for _, o := range objects {
			all = append(all, dependent{r, o})
		}
	}
	return all
}

// discover brings the graph up to what the server has. Resources that cannot be asked about stay as they were.
func (c *Controller) discover(ctx context.Context, group *errgroup.Group) error {
	found, err := served.Discover(ctx, c.config.Discovery)
	if err != nil {
		return err
	}
	old := c.graph.Load()
	next := &resources{byName: map[string]*resource{}, byKind: map[schema.GroupKind]*resource{}, served: found.ByKind}
	add := func(r *resource) {
		next.all = append(next.all, r)
		next.byName[r.gvr.GroupResource().String()] = r
		next.byKind[schema.GroupKind{Group: r.gvr.Group, Kind: r.kind}] = r
	}
	var fresh []*resource
	for _, s := range found.Preferred {
		gr := s.GVR.GroupResource()
		if ignored[gr] || !s.Can("list", "watch", "delete") {
			continue
		}
		r := old.byName[gr.String()]
		if r == nil || r.gvr != s.GVR || r.kind != s.Kind || r.namespaced != s.Namespaced {
			if r, err = c.follow(ctx, group, s); err != nil {
				return err
			}
			fresh = append(fresh, r)
		}
		add(r)
	}
	for gvk, s := range old.served {
		if _, down := found.Failed[gvk.GroupVersion()]; down {
			next.served[gvk] = s
		}
	}
	for _, r := range old.all {
		if _, down := found.Failed[r.gvr.GroupVersion()]; down && next.byName[r.gvr.GroupResource().String()] == nil {
			add(r)
		}
	}
	c.graph.Store(next)
	for _, r := range fresh { // handlers look things up in the graph, so they come after it
		c.listen(r)
	}
	for _, r := range old.all {
		if !slices.Contains(next.all, r) {
			r.end()
		}
	}
	return nil
}

// follow makes the informer of a resource. Built-in resources never go, and share their informers with other controllers; the
// others have one that can be ended.
func (c *Controller) follow(ctx context.Context, group *errgroup.Group, s served.Resource) (*resource, error) {
	r := &resource{gvr: s.GVR, kind: s.Kind, namespaced: s.Namespaced}
	factory := c.config.Informers
	builtIn := scheme.Scheme.Recognizes(s.GVR.GroupVersion().WithKind(s.Kind))
	if !builtIn {
		var err error
		if factory, err = informer.NewFactory(c.config.Server, informer.Config{Logger: c.logger}); err != nil {
			return nil, fmt.Errorf("follow %s: %w", s.GVR.GroupResource(), err)
		}
	}
	res := informer.MetadataOf(s.GVR)
	res.DropManagedFields = true
	r.informer = factory.Informer(res)
	r.informer.AddIndex(uidIndex, informer.ByUID)
	r.informer.AddIndex(ownerIndex, informer.ByOwnerUID)
	if !builtIn {
		own, cancel := context.WithCancel(ctx)
		r.stop = cancel
		group.Go(func() error {
			_ = factory.Run(own) // it ends with its resource or with ctx
			return nil
		})
	}
	return r, nil
}

func (r *resource) end() {
	r.handler.Remove()
	if r.stop != nil {
		r.stop()
	}
}

func (c *Controller) stopInformers() {
	for _, r := range c.graph.Load().all {
		r.end()
	}
}

// Read from the bytes, since they are asked for at every event: fields of ObjectMeta (k8s.io/apimachinery
// pkg/apis/meta/v1/generated.proto), which is field 1 of every kind.
var (
	finalizersOf = informer.ByField(func(o *metav1.PartialObjectMetadata) []string { return o.Finalizers }, 1, 14)
	deletedAt    = informer.ByField(func(o *metav1.PartialObjectMetadata) []string {
		if o.DeletionTimestamp == nil {
			return nil
		}
		return []string{o.DeletionTimestamp.String()}
	}, 1, 9)
)

// waits says that an object is being deleted and has a finalizer that is this controller's to remove.
func waits(o *informer.Object) bool {
	return len(deletedAt(nil, o)) > 0 && slices.ContainsFunc(finalizersOf(nil, o), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
}

// inForeground says that an object is being deleted and waits for its dependents.
func inForeground(o *informer.Object) bool {
	return len(deletedAt(nil, o)) > 0 && slices.Contains(finalizersOf(nil, o), metav1.FinalizerDeleteDependents)
}

func metadataOf(o *informer.Object) (*metav1.PartialObjectMetadata, error) {
	return informer.As[*metav1.PartialObjectMetadata](o)
}

func has(o *metav1.PartialObjectMetadata, finalizer string) bool {
	return slices.Contains(o.Finalizers, finalizer)
}
