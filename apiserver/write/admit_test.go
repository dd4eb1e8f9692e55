package write

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/admission"
	"vigil/apiserver/admission/plugins"
	"vigil/kinds"
	"vigil/object"
	"vigil/store"
)

// lifecycle is a chain with nothing but the life cycle of namespaces, which w decides about.
func lifecycle(w **Writer, s *serving) *admission.Chain {
	return admission.New([]admission.Plugin{plugins.NamespaceLifecycle{Reader: writerReader{w, s}}}, nil)
}

// writerReader reads what a writer sees.
type writerReader struct {
	w **Writer
	s *serving
}

func (r writerReader) kind(resource schema.GroupResource) *kinds.Kind {
	for _, k := range r.s.table.All() {
		if k.GroupResource() == resource && k.View == nil {
			return k
		}
	}
	return nil
}

func (r writerReader) Get(_ context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	k := r.kind(resource)
	v, ok := r.s.cache(k).Get((*r.w).key(k, namespace, name))
	if !ok {
		return nil, apierrors.NewNotFound(resource, name)
	}
	obj, err := v.Decode()
	if err != nil {
		return nil, err
	}
	return obj.(kinds.Object), nil
}

func (r writerReader) Live(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	k := r.kind(resource)
	kv, err := (*r.w).store.Get(ctx, (*r.w).key(k, namespace, name))
	if errors.Is(err, store.ErrNotFound) {
		return nil, apierrors.NewNotFound(resource, name)
	}
	if err != nil {
		return nil, err
	}
	v, err := object.NewVersion(k.Type, kv.Key, kv.ModRev, kv.Value)
	if err != nil {
		return nil, err
	}
	obj, err := v.Decode()
	if err != nil {
		return nil, err
	}
	return obj.(kinds.Object), nil
}

func (writerReader) List(context.Context, schema.GroupResource, string) ([]kinds.Object, error) {
	return nil, errors.New("nobody asks")
}
