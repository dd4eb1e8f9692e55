package informer

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

// Lister reads an informer's objects, decoded to T. Everything it returns is a fresh copy that belongs to the caller.
type Lister[T runtime.Object] struct{ inf *Informer }

// ListerFor returns a lister on an informer whose objects decode to T.
func ListerFor[T runtime.Object](inf *Informer) Lister[T] { return Lister[T]{inf} }

// Informer returns the informer that is read.
func (l Lister[T]) Informer() *Informer { return l.inf }

// Get returns the object of that name; namespace is "" for kinds outside namespaces. It fails with a NotFound error of
// apimachinery when there is none.
func (l Lister[T]) Get(namespace, name string) (T, error) {
	o, ok := l.inf.indexer.Get(namespace, name)
	if !ok {
		var none T
		return none, apierrors.NewNotFound(l.inf.resource.GroupResource(), name)
	}
	return As[T](o)
}

// List returns the objects of a namespace ("": all) that the selector matches (nil: all), in no order. Only those are decoded.
func (l Lister[T]) List(namespace string, selector labels.Selector) ([]T, error) {
	objects := l.inf.indexer.List(namespace)
	if selector != nil && !selector.Empty() {
		kept := objects[:0]
		for _, o := range objects {
			if selector.Matches(o.Labels()) {
				kept = append(kept, o)
			}
		}
		objects = kept
	}
	return decodeAll[T](objects)
}

// ByIndex returns the objects that an index has under value, in no order.
func (l Lister[T]) ByIndex(name, value string) ([]T, error) {
	objects, err := l.inf.indexer.ByIndex(name, value)
	if err != nil {
		return nil, err
	}
	return decodeAll[T](objects)
}

func decodeAll[T runtime.Object](objects []*Object) ([]T, error) {
	out := make([]T, 0, len(objects))
	for _, o := range objects {
		t, err := As[T](o)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	return out, nil
}
