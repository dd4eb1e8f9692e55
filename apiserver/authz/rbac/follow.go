package rbac

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"

	"vigil/watchcache"
)

// Caches are where roles and bindings come from.
type Caches struct {
	Roles, ClusterRoles, RoleBindings, ClusterRoleBindings *watchcache.Cache
}

func (c Caches) all() []*watchcache.Cache {
	return []*watchcache.Cache{c.Roles, c.ClusterRoles, c.RoleBindings, c.ClusterRoleBindings}
}

// Loaded is closed when the authorizer knows all that was there when Follow began.
func (a *Authorizer) Loaded() <-chan struct{} { return a.loaded }

// Follow keeps the index as the caches are until ctx ends. A change is in force as soon as the feed has brought it.
func (a *Authorizer) Follow(ctx context.Context, caches Caches) error {
	for {
		err := a.follow(ctx, caches)
		if !errors.Is(err, watchcache.ErrExpired) {
			return err
		}
	}
}

// follow reads everything and then follows, until it falls behind the window of a cache.
func (a *Authorizer) follow(ctx context.Context, caches Caches) error {
	var cursors []*watchcache.Cursor
	for _, cache := range caches.all() {
		if err := cache.WaitLoaded(ctx); err != nil {
			return fmt.Errorf("wait for %s: %w", cache.Resource().Name, err)
		}
		cursor, err := cache.Watch(watchcache.WatchOptions{Initial: cache.Snapshot()})
		if err != nil {
			return fmt.Errorf("watch %s: %w", cache.Resource().Name, err)
		}
		defer cursor.Close()
		cursors = append(cursors, cursor)
	}
	wake := make(chan struct{}, 1)
	notify := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	next := newEdit(nil)
	for first := true; ; first = false {
		changed := first
		for _, cursor := range cursors {
			for {
				event, ok, err := cursor.Next()
				if err != nil {
					return err
				}
				if !ok {
					break
				}
				changed = true
				if err := next.apply(event); err != nil { // it gives nobody anything, as long as it cannot be read
					a.log.Error("the API server cannot decode a role or a binding; it grants nothing until it is written anew", "error", err)
				}
			}
		}
		if changed {
			a.publish(next.done())
			next = newEdit(a.index.Load())
		}
		if first {
			select {
			case <-a.loaded:
			default:
				close(a.loaded)
			}
		}
		for _, cursor := range cursors {
			cursor.Notify(notify)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
	}
}

// apply takes one event into the index being made.
func (e *edit) apply(event watchcache.Event) error {
	if event.Object == nil {
		return nil
	}
	obj, err := event.Object.Decode()
	if err != nil {
		return fmt.Errorf("decode %s: %w", event.Object.Key(), err)
	}
	gone := event.Type == watchcache.Deleted
	switch o := obj.(type) {
	case *rbacv1.Role:
		e.role(roleKey{o.Namespace, o.Name}, o.Rules, gone)
	case *rbacv1.ClusterRole:
		e.role(roleKey{"", o.Name}, o.Rules, gone)
	case *rbacv1.RoleBinding:
		e.binding(&binding{bindingKey{o.Namespace, o.Name}, o.RoleRef, o.Subjects}, gone)
	case *rbacv1.ClusterRoleBinding:
		e.binding(&binding{bindingKey{"", o.Name}, o.RoleRef, o.Subjects}, gone)
	default:
		return fmt.Errorf("apply %s: %T is neither role nor binding", event.Object.Key(), obj)
	}
	return nil
}

func (e *edit) role(key roleKey, rules []rbacv1.PolicyRule, gone bool) {
	if gone {
		e.dropRole(key)
	} else {
		e.setRole(key, rules)
	}
}

func (e *edit) binding(b *binding, gone bool) {
	if gone {
		e.dropBinding(b.key)
	} else {
		e.setBinding(b)
	}
}
