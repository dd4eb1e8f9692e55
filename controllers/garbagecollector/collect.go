package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
)

func (c *Controller) objects(r *resource, namespace string) metadata.ResourceInterface {
	return c.config.Metadata.Resource(r.gvr).Namespace(namespace)
}

// collect deletes an object whose owners are gone, or takes out its references to some that are. It judges the object as the cache has
// it, and its version is a precondition of what is done: only when it has changed since is it read from the server and judged anew.
func (c *Controller) collect(ctx context.Context, r *resource, cached *dependentObject) (time.Duration, error) {
	if c.allSolid(cached) {
		return 0, nil
	}
	again, err := c.judge(ctx, r, cached)
	if !apierrors.IsConflict(err) {
		return again, err
	}
	object, err := c.objects(r, cached.Namespace).Get(ctx, cached.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return 0, nil // its event is on its way
	}
	if err != nil {
		return 0, fmt.Errorf("get %s: %w", r.gvr.GroupResource(), err)
	}
	if object.UID != cached.UID {
		return 0, nil
	}
	return c.judge(ctx, r, object)
}

// judge does what is to be done about an object. It fails with a conflict when the object has changed in a way that may matter.
func (c *Controller) judge(ctx context.Context, r *resource, object *dependentObject) (time.Duration, error) {
	if object.DeletionTimestamp != nil {
		return 0, nil
	}
	owners, again, err := c.states(ctx, r, object)
	switch {
	case errors.Is(err, errLeaveAlone):
		return 0, nil
	case errors.Is(err, errUnknownKind):
		return recheck, nil
	case err != nil:
		return 0, err
	}
	dependents, circular := c.dependents(object.UID)
	v := decide(object, owners, dependents, circular)
	switch {
	case v.remove:
		version := object.ResourceVersion
		if v.unblocked {
			if err := c.unblock(ctx, r, object); err != nil {
				return 0, err
			}
			version = ""
		}
		err = c.delete(ctx, r, object, version, v.policy)
	case len(v.drop) > 0:
		err = c.dropReferences(ctx, r, object, v.drop)
	}
	return again, err
}

// allSolid says that the caches have all owners of an object, and that none is being deleted in the foreground.
func (c *Controller) allSolid(object *dependentObject) bool {
	graph := c.graph.Load()
	for _, w := range object.OwnerReferences {
		_, owner := graph.owner(w.APIVersion, w.Kind, w.Name, string(w.UID), object.Namespace)
		if owner == nil || inForeground(owner) {
			return false
		}
	}
	return true
}

var (
	// errLeaveAlone: an object's references mean nothing that could be decided about.
	errLeaveAlone = errors.New("a cluster-scoped object refers to an owner of a namespaced kind")
	// errUnknownKind: the server does not serve the kind of an owner, now.
	errUnknownKind = errors.New("the kind of an owner is unknown")
)

// states finds out about the owner behind each reference of an object. again is when to ask again about owners that
// the caches do not have, 0 when they have all.
func (c *Controller) states(ctx context.Context, r *resource, object *dependentObject) (owners []state, again time.Duration, err error) {
	graph := c.graph.Load()
	for _, w := range object.OwnerReferences {
		_, cached := graph.owner(w.APIVersion, w.Kind, w.Name, string(w.UID), object.Namespace)
		if cached != nil {
			owners = append(owners, stateOf(inForeground(cached)))
			continue
		}
		live, err := c.ask(ctx, graph, r, object, w)
		if err != nil {
			return nil, 0, err
		}
		if live == nil {
			owners = append(owners, missing)
			continue
		}
		again = recheck
		owners = append(owners, stateOf(live.DeletionTimestamp != nil && has(live, metav1.FinalizerDeleteDependents)))
	}
	return owners, again, nil
}

// stateOf is the state of an owner that is there.
func stateOf(foreground bool) state {
	if foreground {
		return going
	}
	return solid
}

// ask reads an owner from the server. It is nil when there is none with that uid.
func (c *Controller) ask(ctx context.Context, graph *resources, r *resource, object *dependentObject, w ownerReference) (*dependentObject, error) {
	gvk := schema.FromAPIVersionAndKind(w.APIVersion, w.Kind)
	kind, known := graph.served[gvk]
	if !known {
		select {
		case c.unknown <- struct{}{}:
		default:
		}
		return nil, errUnknownKind
	}
	namespace := object.Namespace
	if !kind.Namespaced {
		namespace = ""
	} else if namespace == "" {
		c.reportNamespace(r, object, w)
		return nil, errLeaveAlone
	}
	key := ownerKey{group: gvk.Group, kind: gvk.Kind, namespace: namespace, name: w.Name, uid: w.UID}
	if c.absent.has(key) {
		return nil, nil
	}
	owner, err := c.config.Metadata.Resource(kind.GVR).Namespace(namespace).Get(ctx, w.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && owner.UID != w.UID:
		if elsewhere(graph, w.UID, namespace) {
			c.reportNamespace(r, object, w)
		}
		c.absent.add(key)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get owner %s %s: %w", w.Kind, w.Name, err)
	}
	return owner, nil
}

// elsewhere says that an object of that uid is in another namespace.
func elsewhere(graph *resources, uid types.UID, namespace string) bool {
	for _, r := range graph.all {
		if o := r.byUID(string(uid)); o != nil {
			return o.Namespace() != "" && o.Namespace() != namespace
		}
	}
	return false
}

// dependents says whether an object has dependents, and whether one of them is itself deleted in the foreground.
func (c *Controller) dependents(uid types.UID) (some, foreground bool) {
	for _, d := range c.graph.Load().dependents(uid) {
		some = true
		foreground = foreground || inForeground(d.Object)
	}
	return some, foreground
}

// delete deletes an object in the state in which it was judged: in that version, or in a newer one that has the same owners, finalizers
// and life. With an empty version any state will do.
func (c *Controller) delete(ctx context.Context, r *resource, object *dependentObject, version string, policy metav1.DeletionPropagation) error {
	options := metav1.DeleteOptions{PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &object.UID}}
	if version != "" {
		options.Preconditions.ResourceVersion = &version
	}
	objects := c.objects(r, object.Namespace)
	err := objects.Delete(ctx, object.Name, options)
	if apierrors.IsConflict(err) && version != "" {
		now, failed := objects.Get(ctx, object.Name, metav1.GetOptions{})
		if failed == nil && now.UID == object.UID && sameFate(now, object) {
			options.Preconditions.ResourceVersion = nil
			err = objects.Delete(ctx, object.Name, options)
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s/%s: %w", r.gvr.GroupResource(), object.Namespace, object.Name, err)
	}
	return nil
}

// sameFate says that two versions of an object would be judged alike, as long as their owners and dependents are the same.
func sameFate(a, b *dependentObject) bool {
	return reflect.DeepEqual(a.OwnerReferences, b.OwnerReferences) && slices.Equal(a.Finalizers, b.Finalizers) &&
		a.DeletionTimestamp.Equal(b.DeletionTimestamp)
}

// foreground queues the dependents of an object that is deleted in the foreground, and lets it go when none holds it back.
func (c *Controller) foreground(ctx context.Context, r *resource, owner *dependentObject) error {
	held := false
	for _, d := range c.graph.Load().dependents(owner.UID) {
		object, err := metadataOf(d.Object)
		if err != nil {
			return err
		}
		if !refersTo(d, r, owner) {
			continue
		}
		held = held || blocks(object, owner.UID)
		c.queue.Add(keyOf(d.resource, d.UID()))
	}
	if held {
		return nil // the event of a dependent's change leads back here
	}
	return c.removeFinalizer(ctx, r, owner, metav1.FinalizerDeleteDependents)
}

// refersTo says that a dependent with the owner's uid in a reference means the owner: a reference does not reach into another namespace.
func refersTo(d dependent, r *resource, owner *dependentObject) bool {
	return !r.namespaced || d.Namespace() == owner.Namespace
}

// orphan takes the references to an object out of all its dependents, and lets it go.
func (c *Controller) orphan(ctx context.Context, r *resource, owner *dependentObject) error {
	var errs []error
	for _, d := range c.graph.Load().dependents(owner.UID) {
		if !refersTo(d, r, owner) {
			continue
		}
		object, err := metadataOf(d.Object)
		if err == nil {
			err = c.dropReferences(ctx, d.resource, object, []types.UID{owner.UID})
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.removeFinalizer(ctx, r, owner, metav1.FinalizerOrphanDependents)
}
