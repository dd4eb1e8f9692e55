package plugins

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver/admission"
	"vigil/kinds"
)

// NamespaceLifecycle keeps creates out of namespaces that do not exist or are being deleted, and keeps the namespaces that every
// cluster has. Unlike upstream's it lets updates in a missing namespace be: where there is an object, there was a namespace.
type NamespaceLifecycle struct{ Reader admission.Reader }

// Name implements admission.Plugin.
func (NamespaceLifecycle) Name() string { return "NamespaceLifecycle" }

// Handles implements admission.Plugin.
func (NamespaceLifecycle) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	switch op {
	case admission.Create:
		return k.Namespaced && k.GVK.Kind != "LocalSubjectAccessReview"
	case admission.Delete:
		return k.GroupResource() == namespaces && subresource == ""
	}
	return false
}

// Admit implements admission.Mutator.
func (p NamespaceLifecycle) Admit(ctx context.Context, a *admission.Attributes) error {
	if a.Operation == admission.Delete {
		switch a.Name {
		case metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic:
			return apierrors.NewForbidden(namespaces, a.Name, errors.New("this namespace may not be deleted"))
		}
		return nil
	}
	obj, err := admission.Find(ctx, p.Reader, namespaces, "", a.Namespace)
	if err != nil {
		return err
	}
	if obj.(*corev1.Namespace).Status.Phase != corev1.NamespaceTerminating {
		return nil
	}
	refusal := apierrors.NewForbidden(a.Resource(), a.DisplayName(), fmt.Errorf("unable to create new content in namespace %s because it is being terminated", a.Namespace))
	refusal.ErrStatus.Details.Causes = append(refusal.ErrStatus.Details.Causes, metav1.StatusCause{
		Type:    corev1.NamespaceTerminatingCause,
		Message: fmt.Sprintf("namespace %s is being terminated", a.Namespace),
		Field:   "metadata.namespace",
	})
	return refusal
}
