package core

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNamespace_Create(t *testing.T) {
	row := Namespace()
	ns := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"example.com/x"}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating, Conditions: []corev1.NamespaceCondition{{Type: "x"}}},
	}
	row.Default(ns)
	row.PrepareCreate(ns)
	wantSame(t, "namespace", &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"kubernetes.io/metadata.name": "a"}},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"example.com/x", "kubernetes"}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}, ns)
	wantErrors(t, row.Validate(ns))
}

func TestNamespace_NameLabelComesBack(t *testing.T) {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"kubernetes.io/metadata.name": "b", "x": "y"}}}
	Namespace().Default(ns)
	wantSame(t, "labels", map[string]string{"kubernetes.io/metadata.name": "a", "x": "y"}, ns.Labels)
}

func TestNamespace_Names(t *testing.T) {
	row := Namespace()
	for name, ok := range map[string]bool{"kube-system": true, "0a": true, "a.b": false, "A": false, "": false} {
		if texts := row.ValidateName(name, false); (len(texts) == 0) != ok {
			t.Errorf("%q: %v", name, texts)
		}
	}
}

func TestNamespace_Finalizers(t *testing.T) {
	row := Namespace()
	ns := &corev1.Namespace{Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes", "orphan", "foregroundDeletion", "example.com/x", "own", "a/b/c"}}}
	wantErrors(t, row.Validate(ns),
		`spec.finalizers: Invalid value: "own": name is neither a standard finalizer name nor is it fully qualified`,
		`spec.finalizers: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
	)
	finalize := row.Subresource("finalize")
	ns.Spec.Finalizers = []corev1.FinalizerName{"kubernetes", "own"}
	wantErrors(t, finalize.Validate(ns, ns), `spec.finalizers[1]: Invalid value: "own": name is neither a standard finalizer name nor is it fully qualified`)
	wantSame(t, "finalizers that hold a deletion", []string{"kubernetes", "own"}, row.SpecFinalizers(ns))
}

// TestNamespace_Parts: each of the three ways to write changes its own part only.
func TestNamespace_Parts(t *testing.T) {
	row := Namespace()
	old := &corev1.Namespace{
		Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
	}
	sent := &corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}

	main := sent.DeepCopy()
	row.PrepareUpdate(main, old)
	wantSame(t, "through the main resource", old, main)

	status := sent.DeepCopy()
	row.Subresource("status").Prepare(status, old)
	wantSame(t, "through status", &corev1.Namespace{Spec: old.Spec, Status: sent.Status}, status)

	finalize := sent.DeepCopy()
	row.Subresource("finalize").Prepare(finalize, old)
	wantSame(t, "through finalize", &corev1.Namespace{Spec: sent.Spec, Status: old.Status}, finalize)
}

func TestNamespace_Phase(t *testing.T) {
	status := Namespace().Subresource("status")
	alive := &corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating}}
	wantErrors(t, status.Validate(alive, alive), "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty")
	going := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ptr(metav1.Now())}, Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	wantErrors(t, status.Validate(going, going), "status.Phase: Invalid value: \"Active\": may only be 'Terminating' if `deletionTimestamp` is not empty")
	alive.Status.Phase, going.Status.Phase = going.Status.Phase, alive.Status.Phase
	wantErrors(t, status.Validate(alive, alive))
	wantErrors(t, status.Validate(going, going))
}

func TestNamespace_Delete(t *testing.T) {
	ns := &corev1.Namespace{Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive}}
	Namespace().Terminate(ns)
	if ns.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("phase %s", ns.Status.Phase)
	}
}

func TestNamespace_Row(t *testing.T) {
	now := time.Now()
	ns := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "a", CreationTimestamp: metav1.NewTime(now.Add(-3 * time.Hour))},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}
	wantSame(t, "row", []any{"a", "Active", "3h"}, Namespace().Row(ns, now))
}
