package rbac

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
)

// index is all roles and bindings at one moment. It is never changed: an edit makes another one that shares what is as it was.
type index struct {
	roles    shards[roleKey, *role]
	users    shards[subject, *holder]
	groups   shards[subject, *holder]
	bindings shards[bindingKey, *binding] // to take back what a changed one gave
}

// bindingKey names a binding; namespace is empty for a ClusterRoleBinding.
type bindingKey struct{ namespace, name string }

// subject is the name of a user or group.
type subject string

// binding is a RoleBinding or ClusterRoleBinding.
type binding struct {
	key      bindingKey
	ref      rbacv1.RoleRef
	subjects []rbacv1.Subject
}

// holder is somebody who holds roles.
type holder struct {
	cluster    []held
	namespaces map[string][]held
}

// held is a role in somebody's hands.
type held struct {
	role    roleKey
	ref     rbacv1.RoleRef
	binding bindingKey
	reason  string // why a request is allowed by it, as upstream says it
}

// role is the key of what a binding refers to.
func (b *binding) role() roleKey {
	if b.ref.Kind == "Role" {
		return roleKey{b.key.namespace, b.ref.Name}
	}
	return roleKey{name: b.ref.Name}
}

// who is the place of a subject in the index: a user, or a group; ok is false for a subject of another kind.
func (b *binding) who(s *rbacv1.Subject) (name subject, group, ok bool) {
	switch s.Kind {
	case rbacv1.UserKind:
		return subject(s.Name), false, true
	case rbacv1.GroupKind:
		return subject(s.Name), true, true
	case rbacv1.ServiceAccountKind:
		namespace := s.Namespace
		if namespace == "" {
			namespace = b.key.namespace
		}
		if namespace == "" {
			return "", false, false
		}
		return subject("system:serviceaccount:" + namespace + ":" + s.Name), false, true
	}
	return "", false, false
}

func (b *binding) reason(s *rbacv1.Subject) string {
	subject := fmt.Sprintf("%s %q", s.Kind, s.Name)
	if s.Kind == rbacv1.ServiceAccountKind {
		namespace := s.Namespace
		if namespace == "" {
			namespace = b.key.namespace
		}
		subject = fmt.Sprintf("%s %q", s.Kind, s.Name+"/"+namespace)
	}
	if b.key.namespace == "" {
		return fmt.Sprintf("RBAC: allowed by ClusterRoleBinding %q of %s %q to %s", b.key.name, b.ref.Kind, b.ref.Name, subject)
	}
	return fmt.Sprintf("RBAC: allowed by RoleBinding %q of %s %q to %s", b.key.name+"/"+b.key.namespace, b.ref.Kind, b.ref.Name, subject)
}

// edit makes a new index out of an old one. What it has copied already it changes in place.
type edit struct {
	index
	owned map[*holder]struct{}
}

func newEdit(from *index) *edit {
	e := &edit{owned: map[*holder]struct{}{}}
	if from != nil {
		e.index = *from
		e.roles.owned, e.users.owned, e.groups.owned, e.bindings.owned = shardSet{}, shardSet{}, shardSet{}, shardSet{}
	}
	return e
}

// done returns the new index; the edit is over.
func (e *edit) done() *index { return &e.index }

func (e *edit) setRole(key roleKey, rules []rbacv1.PolicyRule) { e.roles.set(key, compile(rules)) }

func (e *edit) dropRole(key roleKey) { e.roles.drop(key) }

func (e *edit) setBinding(b *binding) {
	e.dropBinding(b.key)
	e.bindings.set(b.key, b)
	for i := range b.subjects {
		s := &b.subjects[i]
		name, group, ok := b.who(s)
		if !ok {
			continue
		}
		h := e.holder(name, group)
		one := held{role: b.role(), ref: b.ref, binding: b.key, reason: b.reason(s)}
		if b.key.namespace == "" {
			h.cluster = append(slices.Clip(h.cluster), one)
		} else {
			if h.namespaces == nil {
				h.namespaces = map[string][]held{}
			}
			h.namespaces[b.key.namespace] = append(slices.Clip(h.namespaces[b.key.namespace]), one)
		}
	}
}

func (e *edit) dropBinding(key bindingKey) {
	b, ok := e.bindings.get(key)
	if !ok {
		return
	}
	e.bindings.drop(key)
	without := func(list []held) []held {
		return slices.DeleteFunc(slices.Clone(list), func(h held) bool { return h.binding == key })
	}
	for i := range b.subjects {
		name, group, ok := b.who(&b.subjects[i])
		if !ok {
			continue
		}
		h := e.holder(name, group)
		if key.namespace == "" {
			h.cluster = without(h.cluster)
		} else if list := without(h.namespaces[key.namespace]); len(list) > 0 {
			h.namespaces[key.namespace] = list
		} else {
			delete(h.namespaces, key.namespace)
		}
		if len(h.cluster) == 0 && len(h.namespaces) == 0 {
			e.holders(group).drop(name)
			delete(e.owned, h)
		}
	}
}

func (e *edit) holders(group bool) *shards[subject, *holder] {
	if group {
		return &e.groups
	}
	return &e.users
}

// holder returns the holder of that name for changing.
func (e *edit) holder(name subject, group bool) *holder {
	all := e.holders(group)
	h, ok := all.get(name)
	if ok {
		if _, ok := e.owned[h]; ok {
			return h
		}
		h = &holder{cluster: h.cluster, namespaces: maps.Clone(h.namespaces)}
	} else {
		h = &holder{}
	}
	e.owned[h] = struct{}{}
	all.set(name, h)
	return h
}

// shards is a map in parts, of which a change copies only one.
type shards[K shardKey, V any] struct {
	parts [shardCount]map[K]V
	owned shardSet
}

const shardCount = 256

type shardSet [shardCount]bool

// shardKey names its shard.
type shardKey interface {
	comparable
	shard() uint8
}

var seed = maphash.MakeSeed()

func (s subject) shard() uint8 { return uint8(maphash.String(seed, string(s))) }
func (k roleKey) shard() uint8 { return uint8(maphash.String(seed, k.name)) }
func (k bindingKey) shard() uint8 {
	return uint8(maphash.String(seed, k.name) + maphash.String(seed, k.namespace))
}

func (s *shards[K, V]) get(key K) (V, bool) {
	v, ok := s.parts[key.shard()][key]
	return v, ok
}

func (s *shards[K, V]) own(part uint8) map[K]V {
	if !s.owned[part] {
		s.owned[part] = true
		if s.parts[part] = maps.Clone(s.parts[part]); s.parts[part] == nil {
			s.parts[part] = map[K]V{}
		}
	}
	return s.parts[part]
}

func (s *shards[K, V]) set(key K, v V) { s.own(key.shard())[key] = v }

func (s *shards[K, V]) drop(key K) { delete(s.own(key.shard()), key) }
