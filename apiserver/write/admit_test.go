package write

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
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

// deleteSeen is a mutator that notes what it is shown of a delete.
type deleteSeen struct{ seen []string }

func (*deleteSeen) Name() string { return "DeleteSeen" }

func (*deleteSeen) Handles(k *kinds.Kind, _ string, op admission.Operation) bool {
	return k.Resource == "configmaps" && op == admission.Delete
}

func (d *deleteSeen) Admit(_ context.Context, a *admission.Attributes) error {
	old := a.Old.(*corev1.ConfigMap)
	d.seen = append(d.seen, a.Name+" "+old.Data["key"])
	if old.Data["key"] == "kept" {
		return admission.Refuse(a, "it is to be kept")
	}
	return nil
}

// A mutator sees the stored object when it is deleted, each state of it that is about to go, and may refuse that.
func TestAdmit_OldOnDelete(t *testing.T) {
	h := newWorld(t)
	d := &deleteSeen{}
	h.change(func() { h.chain = admission.New([]admission.Plugin{d}, nil) })
	stale := h.mustCreate("configmaps", `{"metadata":{"name":"c"},"data":{"key":"first"}}`)
	h.must(h.patch("configmaps", "c", "", "", mergePatch, `{"data":{"key":"second"}}`))
	h.lag(stale)
	h.must(h.delete("configmaps", "c", "", ""))
	if !slices.Equal(d.seen, []string{"c first", "c second"}) {
		t.Errorf("seen %q", d.seen)
	}
	h.mustCreate("configmaps", `{"metadata":{"name":"k"},"data":{"key":"kept"}}`)
	if _, err := h.delete("configmaps", "k", "", ""); !apierrors.IsForbidden(err) {
		t.Errorf("delete of what is to be kept: %v", err)
	}
	d.seen = nil
	if _, err := h.delete("configmaps", "missing", "", ""); !apierrors.IsNotFound(err) || len(d.seen) > 0 {
		t.Errorf("delete of what is not there: %v, seen %q", err, d.seen)
	}
}
