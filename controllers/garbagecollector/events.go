package garbagecollector

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer"
)

// listen makes a resource's events put objects into the queue.
func (c *Controller) listen(r *resource) {
	r.handler = r.informer.AddHandler(informer.EventHandler{
		OnAdd: func(o *informer.Object, _ bool) {
			if c.started.Load() {
				c.look(r, o)
			}
		},
		OnUpdate: func(old, o *informer.Object) {
			if c.started.Load() {
				c.lookAtOwners(old)
				c.look(r, o)
			}
		},
		OnDelete: func(o *informer.Object, _ bool) {
			c.absent.add(ownerKey{kind: r.kind, group: r.gvr.Group, namespace: o.Namespace(), name: o.Name(), uid: o.UID()})
			if !c.started.Load() {
				return
			}
			c.lookAtOwners(o)
			for _, d := range c.graph.Load().dependents(o.UID()) {
				c.queue.Add(keyOf(d.resource, d.UID()))
			}
		},
	})
}

// look queues an object if something may have to be done about it: an owner is not to be found or going, or it waits for its
// dependents itself. Nearly all events of a cluster end here, so nothing is decoded.
func (c *Controller) look(r *resource, o *informer.Object) {
	suspect := waits(o)
	graph := c.graph.Load()
	for _, w := range o.Owners() {
		at, owner := graph.owner(w.APIVersion, w.Kind, w.Name, w.UID, o.Namespace())
		switch {
		case owner == nil:
			suspect = true
		case inForeground(owner):
			suspect = true
			c.queue.Add(keyOf(at, owner.UID()))
		}
	}
	if suspect {
		c.queue.Add(keyOf(r, o.UID()))
	}
}

// lookAtOwners queues the owners of an object that wait for their dependents: this may have been the last.
func (c *Controller) lookAtOwners(o *informer.Object) {
	graph := c.graph.Load()
	for _, w := range o.Owners() {
		if at, owner := graph.owner(w.APIVersion, w.Kind, w.Name, w.UID, o.Namespace()); owner != nil && waits(owner) {
			c.queue.Add(keyOf(at, owner.UID()))
		}
	}
}

// reportNamespace makes an event about a reference to an owner that is in another namespace, where references do not reach.
// Each pair gets one.
func (c *Controller) reportNamespace(r *resource, d *dependentObject, w ownerReference) {
	pair := [2]types.UID{d.UID, w.UID}
	c.mu.Lock()
	_, done := c.reported[pair]
	if !done {
		if len(c.reported) >= absentLimit {
			clear(c.reported) // an event more does no harm, a growing table would
		}
		c.reported[pair] = struct{}{}
	}
	c.mu.Unlock()
	if done {
		return
	}
	about := &corev1.ObjectReference{
		APIVersion: r.gvr.GroupVersion().String(), Kind: r.kind, Namespace: d.Namespace, Name: d.Name, UID: d.UID,
	}
	owner := fmt.Sprintf("[%s/%s, namespace: %s, name: %s, uid: %s]", w.APIVersion, w.Kind, d.Namespace, w.Name, w.UID)
	c.config.Recorder.Eventf(about, corev1.EventTypeWarning, "OwnerRefInvalidNamespace", "ownerRef %s does not exist in namespace %q", owner, d.Namespace)
}
