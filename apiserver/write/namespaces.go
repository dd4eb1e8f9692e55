package write

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/kinds"
	"vigil/object"
)

// namespaces is the life cycle of namespaces: nothing is created in one that does not exist or is being deleted, and
// three of them are never deleted. It follows upstream's admission plug-in NamespaceLifecycle.
type namespaces struct {
	w    *Writer
	kind *kinds.Kind // nil when the table has no namespaces; then everything is allowed

	mu sync.Mutex
	// ending holds the namespaces whose deletion this server has begun, with the revision of that write, as long as
	// the cache may not have seen it.
	ending map[string]int64
}

func newNamespaces(w *Writer) *namespaces {
	return &namespaces{
		w:      w,
		kind:   w.table.ByResource(corev1.SchemeGroupVersion.WithResource("namespaces")),
		ending: make(map[string]int64),
	}
}

// checkCreate refuses the creation of obj (or of something below it) in a namespace that is missing or going.
func (n *namespaces) checkCreate(ctx context.Context, o *op, obj metav1.Object) error {
	if !o.k.Namespaced || n.kind == nil {
		return nil
	}
	name := o.r.Namespace
	v, err := n.get(ctx, name)
	if err != nil {
		return toStatus(err, n.kind.GroupResource(), name, "get")
	}
	if phase, _ := v.Field("status.phase"); phase != string(corev1.NamespaceTerminating) {
		return nil
	}
	return terminating(o.gr(), displayName(obj), name)
}

// get returns a namespace from the cache, or from etcd when the cache has not (or may not have) the newest.
func (n *namespaces) get(ctx context.Context, name string) (*object.Version, error) {
	key := n.w.key(n.kind, "", name)
	if v, ok := n.w.cache(n.kind).Get(key); ok && n.current(name, v.Revision()) {
		return v, nil
	}
	kv, err := n.w.store.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	return object.NewVersion(n.kind.Type, key, kv.ModRev, kv.Value)
}

// current says whether a cached namespace at revision rev is as new as the last deletion begun here.
func (n *namespaces) current(name string, rev int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	deletion, ok := n.ending[name]
	if !ok {
		return true
	}
	if rev < deletion {
		return false
	}
	delete(n.ending, name)
	return true
}

// checkDelete refuses to delete the namespaces that every cluster has.
func (n *namespaces) checkDelete(k *kinds.Kind, name string) error {
	if k != n.kind {
		return nil
	}
	switch name {
	case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
		return apierrors.NewForbidden(k.GroupResource(), name, errors.New("this namespace may not be deleted"))
	}
	return nil
}

// deleting notes that a namespace has been marked for deletion at a revision.
func (n *namespaces) deleting(k *kinds.Kind, v *object.Version) {
	if k != n.kind {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ending[v.Name()] = v.Revision()
}

// displayName is how errors call an object that may have no name yet.
func displayName(obj metav1.Object) string {
	if name := obj.GetName(); name != "" {
		return name
	}
	return obj.GetGenerateName()
}

func terminating(gr schema.GroupResource, name, namespace string) error {
	err := apierrors.NewForbidden(gr, name, fmt.Errorf("unable to create new content in namespace %s because it is being terminated", namespace))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", namespace),
		Field:   "metadata.namespace",
	})
	return err
}
