package informer

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// EventHandler is told what happens to the objects of an informer. Nil functions are skipped. One handler's functions are
// called one after another, from one goroutine, so they should hand work on instead of doing it.
//
// The calls for one object tell its history in order: OnAdd, any number of OnUpdate, OnDelete, and so on. A handler that
// takes longer than the changes come is told less often, never wrongly: several updates of one object become one call
// whose old is what the handler saw last. Nothing is promised between different objects.
type EventHandler struct {
	// OnAdd is called for an object that is new to the handler; initial says that it was there when the handler joined.
	OnAdd func(o *Object, initial bool)
	// OnUpdate is called with the state that the handler was told last and the newest. On a resync the two are equal.
	OnUpdate func(old, o *Object)
	// OnDelete is called with the object's final state. When stale is set the deletion was missed and only noticed
	// because a later list did not have the object: o is then the last state seen, which may not be the final one (what
	// client-go calls DeletedFinalStateUnknown).
	OnDelete func(o *Object, stale bool)
}

// Handler is an EventHandler that gets decoded objects of type T. Each call gets copies of its own. Decoding costs many
// times what the rest of an event does; Keys or an EventHandler do without.
type Handler[T runtime.Object] struct {
	OnAdd    func(obj T, initial bool)
	OnUpdate func(old, obj T)
	OnDelete func(obj T, stale bool)
	// OnError is called instead of the others for an object that cannot be decoded. Nil: such objects are skipped.
	OnError func(o *Object, err error)
}

// EventHandler returns the handler in the form that Informer.AddHandler takes.
func (h Handler[T]) EventHandler() EventHandler {
	decode := func(o *Object) (T, bool) {
		obj, err := As[T](o)
		if err != nil && h.OnError != nil {
			h.OnError(o, err)
		}
		return obj, err == nil
	}
	var e EventHandler
	if h.OnAdd != nil {
		e.OnAdd = func(o *Object, initial bool) {
			if obj, ok := decode(o); ok {
				h.OnAdd(obj, initial)
			}
		}
	}
	if h.OnUpdate != nil {
		e.OnUpdate = func(old, o *Object) {
			before, ok := decode(old)
			if !ok {
				return
			}
			if after, ok := decode(o); ok {
				h.OnUpdate(before, after)
			}
		}
	}
	if h.OnDelete != nil {
		e.OnDelete = func(o *Object, stale bool) {
			if obj, ok := decode(o); ok {
				h.OnDelete(obj, stale)
			}
		}
	}
	return e
}

// Keys returns a handler that calls add with the name of every object that something happens to. It decodes nothing.
func Keys(add func(types.NamespacedName)) EventHandler {
	return EventHandler{
		OnAdd:    func(o *Object, _ bool) { add(o.NamespacedName()) },
		OnUpdate: func(_, o *Object) { add(o.NamespacedName()) },
		OnDelete: func(o *Object, _ bool) { add(o.NamespacedName()) },
	}
}

// ControllerKeys returns a handler that calls add with the name of the controlling owner of every object that something
// happens to, when that owner is of the given group ("" for core) and kind. When an update changes the owner both are
// added. It decodes nothing.
func ControllerKeys(group, kind string, add func(types.NamespacedName)) EventHandler {
	owner := func(o *Object) (types.NamespacedName, bool) {
		w, ok := o.Controller()
		if !ok || w.Kind != kind || w.Group() != group {
			return types.NamespacedName{}, false
		}
		return types.NamespacedName{Namespace: o.Namespace(), Name: w.Name}, true
	}
	one := func(o *Object, _ bool) {
		if k, ok := owner(o); ok {
			add(k)
		}
	}
	return EventHandler{
		OnAdd:    one,
		OnDelete: one,
		OnUpdate: func(old, o *Object) {
			before, had := owner(old)
			after, has := owner(o)
			if has {
				add(after)
			}
			if had && before != after {
				add(before)
			}
		},
	}
}

// deliver tells the handler what an entry of its queue says.
func (h *EventHandler) deliver(d *delta) {
	if d.seen != nil && d.gone == nil && d.now != nil {
		if h.OnUpdate != nil {
			h.OnUpdate(d.seen, d.now)
		}
		return
	}
	if d.gone != nil && h.OnDelete != nil {
		h.OnDelete(d.gone, d.stale)
	}
	if d.ghost != nil {
		if h.OnAdd != nil {
			h.OnAdd(d.ghost, d.initial)
		}
		if h.OnDelete != nil {
			h.OnDelete(d.ghost, d.stale)
		}
	}
	if d.now != nil && h.OnAdd != nil {
		h.OnAdd(d.now, d.initial && d.ghost == nil)
	}
}
