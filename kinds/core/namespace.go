package core

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// Namespace is the row of namespaces. A namespace is deleted in two steps: DELETE makes it Terminating, and it goes
// when the namespace controller has emptied it and taken the finalizer out of spec.finalizers through /finalize.
func Namespace() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("Namespace"),
		Resource:   "namespaces",
		Singular:   "namespace",
		ShortNames: []string{"ns"},
		Verbs:      []string{"create", "delete", "get", "list", "patch", "update", "watch"},
		Path:       "namespaces",
		Type: &object.Type{
			APIVersion: "v1", Kind: "Namespace",
			New:    func() runtime.Object { return &corev1.Namespace{} },
			Fields: []object.Field{{Label: "status.phase", Proto: []int32{3, 1}}},
		},
		UnknownField:     kinds.UnknownField,
		NoNamespaceField: true,
		New:              func() kinds.Object { return &corev1.Namespace{} },
		NewList:          func() runtime.Object { return &corev1.NamespaceList{} },

		Default:        func(obj kinds.Object) { defaultNamespace(obj.(*corev1.Namespace)) },
		PrepareCreate:  func(obj kinds.Object) { prepareNamespace(obj.(*corev1.Namespace)) },
		PrepareUpdate:  keepNamespaceSpecAndStatus,
		ValidateName:   apivalidation.NameIsDNSLabel,
		Validate:       func(obj kinds.Object) field.ErrorList { return validateNamespace(obj.(*corev1.Namespace)) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList { return nil },

		UnconditionalUpdate: true,
		ReturnsDeleted:      true,
		NoDeleteCollection:  true,
		Terminate:           terminateNamespace,
		SpecFinalizers:      namespaceFinalizers,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Status", "The status of the namespace"),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			ns := obj.(*corev1.Namespace)
			return []any{ns.Name, string(ns.Status.Phase), column.Since(ns.CreationTimestamp, now)}
		},

		Subresources: []kinds.Subresource{
			{
				Name:  "status",
				Verbs: []string{"get", "patch", "update"},
				Prepare: func(obj, old kinds.Object) {
					obj.(*corev1.Namespace).Spec = *old.(*corev1.Namespace).Spec.DeepCopy()
				},
				Validate: func(obj, _ kinds.Object) field.ErrorList {
					return validateNamespaceStatus(obj.(*corev1.Namespace))
				},
			},
			{
				Name:  "finalize",
				Verbs: []string{"update"},
				Prepare: func(obj, old kinds.Object) {
					obj.(*corev1.Namespace).Status = *old.(*corev1.Namespace).Status.DeepCopy()
				},
				Validate: func(obj, _ kinds.Object) field.ErrorList {
					return validateNamespaceFinalize(obj.(*corev1.Namespace))
				},
			},
		},
	}
}

// defaultNamespace labels the namespace with its name, so that label selectors can pick single namespaces (KEP-2161).
func defaultNamespace(ns *corev1.Namespace) {
	if ns.Name != "" && ns.Labels[corev1.LabelMetadataName] != ns.Name {
		if ns.Labels == nil {
			ns.Labels = map[string]string{}
		}
		ns.Labels[corev1.LabelMetadataName] = ns.Name
	}
	if ns.Status.Phase == "" {
		ns.Status.Phase = corev1.NamespaceActive
	}
}

// prepareNamespace starts a namespace as Active and held by the namespace controller. The name label comes again for
// names that were generated after defaulting.
func prepareNamespace(ns *corev1.Namespace) {
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
	defaultNamespace(ns)
}

func keepNamespaceSpecAndStatus(obj, old kinds.Object) {
	ns, was := obj.(*corev1.Namespace), old.(*corev1.Namespace)
	ns.Spec.Finalizers = slices.Clone(was.Spec.Finalizers)
	ns.Status = *was.Status.DeepCopy()
}

// terminateNamespace makes a namespace Terminating. Its spec.finalizers hold it until it is empty.
func terminateNamespace(obj kinds.Object) {
	obj.(*corev1.Namespace).Status.Phase = corev1.NamespaceTerminating
}

func namespaceFinalizers(obj kinds.Object) []string {
	finalizers := obj.(*corev1.Namespace).Spec.Finalizers
	names := make([]string, len(finalizers))
	for i, f := range finalizers {
		names[i] = string(f)
	}
	return names
}

func validateNamespace(ns *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "finalizers")
	for _, f := range ns.Spec.Finalizers {
		errs = append(errs, validateFinalizer(string(f), path)...)
	}
	return errs
}

// validateNamespaceStatus keeps phase and deletionTimestamp consistent. The paths are upstream's, capital P included.
func validateNamespaceStatus(ns *corev1.Namespace) field.ErrorList {
	path := field.NewPath("status", "Phase")
	switch {
	case ns.DeletionTimestamp.IsZero() && ns.Status.Phase != corev1.NamespaceActive:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")}
	case !ns.DeletionTimestamp.IsZero() && ns.Status.Phase != corev1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(path, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")}
	}
	return nil
}

func validateNamespaceFinalize(ns *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("spec", "finalizers")
	for i, f := range ns.Spec.Finalizers {
		errs = append(errs, validateFinalizer(string(f), path.Index(i))...)
	}
	return errs
}

// validateFinalizer accepts qualified names; a name without a domain must be one of Kubernetes' own.
func validateFinalizer(name string, path *field.Path) field.ErrorList {
	errs := apivalidation.ValidateFinalizerName(name, path)
	standard := name == string(corev1.FinalizerKubernetes) || name == metav1.FinalizerOrphanDependents || name == metav1.FinalizerDeleteDependents
	if !strings.Contains(name, "/") && !standard {
		errs = append(errs, field.Invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))
	}
	return errs
}
