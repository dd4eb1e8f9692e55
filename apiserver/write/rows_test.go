package write

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/object"
)

// The rows of these tests are small ones of the same shape as the real ones, so that each rule of the machinery can be
// seen at work without the rules of a real kind.
func testTable() *kinds.Table {
	return kinds.NewTable(namespaceRow(), configMapRow(), podRow(), bindingRow(), reviewRow(), deploymentRow(), leaseRow(), eventRow())
}

func rowType(gv, kind string, namespaced bool, n func() kinds.Object, fields ...object.Field) *object.Type {
	return &object.Type{APIVersion: gv, Kind: kind, Namespaced: namespaced, Fields: fields, New: func() runtime.Object { return n() }}
}

func namespaceRow() *kinds.Kind {
	n := func() kinds.Object { return &corev1.Namespace{} }
	finalize := func(obj, old kinds.Object) {
		obj.(*corev1.Namespace).Status = old.(*corev1.Namespace).Status
	}
	return &kinds.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Namespace"), Resource: "namespaces", Path: "namespaces",
		Type: rowType("v1", "Namespace", false, n, object.Field{Label: "status.phase", Proto: []int32{3, 1}}),
		New:  n,
		PrepareCreate: func(obj kinds.Object) {
			ns := obj.(*corev1.Namespace)
			ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
			ns.Status.Phase = corev1.NamespaceActive
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*corev1.Namespace).Spec = old.(*corev1.Namespace).Spec
			obj.(*corev1.Namespace).Status = old.(*corev1.Namespace).Status
		},
		UnconditionalUpdate: true, NoDeleteCollection: true,
		ReturnsDeleted: true,
		Terminate:      func(obj kinds.Object) { obj.(*corev1.Namespace).Status.Phase = corev1.NamespaceTerminating },
		SpecFinalizers: func(obj kinds.Object) (names []string) {
			for _, f := range obj.(*corev1.Namespace).Spec.Finalizers {
				names = append(names, string(f))
			}
			return names
		},
		Subresources: []kinds.Subresource{{Name: "finalize", Verbs: []string{"update"}, Prepare: finalize}},
	}
}

func configMapRow() *kinds.Kind {
	n := func() kinds.Object { return &corev1.ConfigMap{} }
	return &kinds.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Resource: "configmaps", Namespaced: true, Path: "configmaps",
		Type: rowType("v1", "ConfigMap", true, n), New: n,
		Validate: func(obj kinds.Object) (errs field.ErrorList) {
			for key := range obj.(*corev1.ConfigMap).Data {
				if key == "bad" {
					errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, "is a bad key"))
				}
			}
			return errs
		},
		Warnings: func(obj, _ kinds.Object) []string {
			if _, ok := obj.(*corev1.ConfigMap).Data["warn"]; ok {
				return []string{"data.warn: careful", "data.warn: careful"}
			}
			return nil
		},
		UnconditionalUpdate: true,
	}
}

func podRow() *kinds.Kind {
	n := func() kinds.Object { return &corev1.Pod{} }
	return &kinds.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Pod"), Resource: "pods", Namespaced: true, Path: "pods",
		Type: rowType("v1", "Pod", true, n, object.Field{Label: "spec.nodeName", Proto: []int32{2, 10}}), New: n,
		Default: func(obj kinds.Object) {
			spec := &obj.(*corev1.Pod).Spec
			if spec.RestartPolicy == "" {
				spec.RestartPolicy = corev1.RestartPolicyAlways
			}
			if spec.TerminationGracePeriodSeconds == nil {
				grace := int64(30)
				spec.TerminationGracePeriodSeconds = &grace
			}
		},
		PrepareCreate: func(obj kinds.Object) { obj.(*corev1.Pod).Status = corev1.PodStatus{Phase: corev1.PodPending} },
		PrepareUpdate: func(obj, old kinds.Object) { obj.(*corev1.Pod).Status = old.(*corev1.Pod).Status },
		HasGeneration: true,
		Validate: func(obj kinds.Object) (errs field.ErrorList) {
			if len(obj.(*corev1.Pod).Spec.Containers) == 0 {
				errs = append(errs, field.Required(field.NewPath("spec", "containers"), ""))
			}
			return errs
		},
		ValidateUpdate: func(obj, old kinds.Object) (errs field.ErrorList) {
			if obj.(*corev1.Pod).Spec.NodeName != old.(*corev1.Pod).Spec.NodeName {
				errs = append(errs, field.Forbidden(field.NewPath("spec", "nodeName"), "cannot change"))
			}
			return errs
		},
		UnconditionalUpdate: true, ReturnsDeleted: true,
		Graceful: func(obj kinds.Object, opts *metav1.DeleteOptions) (int64, bool) {
			pod := obj.(*corev1.Pod)
			switch {
			case pod.Spec.NodeName == "":
				return 0, true
			case opts.GracePeriodSeconds != nil:
				return *opts.GracePeriodSeconds, true
			default:
				return *pod.Spec.TerminationGracePeriodSeconds, true
			}
		},
		PatchAction: func(obj, old kinds.Object) (string, runtime.Object) {
			pod := obj.(*corev1.Pod)
			if pod.Spec.NodeName == "" || old.(*corev1.Pod).Spec.NodeName != "" {
				return "", nil
			}
			binding := &corev1.Binding{Target: corev1.ObjectReference{Name: pod.Spec.NodeName}}
			pod.Spec.NodeName = ""
			return "binding", binding
		},
		Subresources: []kinds.Subresource{
			{
				Name: "status", Verbs: []string{"get", "patch", "update"},
				Prepare: func(obj, old kinds.Object) {
					obj.(*corev1.Pod).Spec = old.(*corev1.Pod).Spec
					obj.SetLabels(maps.Clone(old.GetLabels()))
				},
				Validate: func(obj, _ kinds.Object) (errs field.ErrorList) {
					if obj.(*corev1.Pod).Status.Phase == "Bad" {
						errs = append(errs, field.NotSupported(field.NewPath("status", "phase"), "Bad", []string{"Running"}))
					}
					return errs
				},
			},
			{
				Name: "binding", GVK: corev1.SchemeGroupVersion.WithKind("Binding"), Verbs: []string{"create"},
				NewView: func() runtime.Object { return &corev1.Binding{} },
				Action: func(obj kinds.Object, body runtime.Object) error {
					pod, binding := obj.(*corev1.Pod), body.(*corev1.Binding)
					if pod.Spec.NodeName != "" {
						return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, pod.Name, errAssigned)
					}
					pod.Spec.NodeName = binding.Target.Name
					return nil
				},
			},
		},
	}
}

type constError string

func (e constError) Error() string { return string(e) }

const errAssigned = constError("pod is already assigned to a node")

// bindingRow is not stored: it only gives the binding of pods another path.
func bindingRow() *kinds.Kind {
	n := func() kinds.Object { return &corev1.Binding{} }
	return &kinds.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Binding"), Resource: "bindings", Namespaced: true, Verbs: []string{"create"},
		Unstored: true, New: n,
	}
}

// reviewRow is answered by a hook.
func reviewRow() *kinds.Kind {
	return &kinds.Kind{
		GVK: authorizationv1.SchemeGroupVersion.WithKind("SubjectAccessReview"), Resource: "subjectaccessreviews",
		Verbs: []string{"create"}, Unstored: true, New: func() kinds.Object { return &authorizationv1.SubjectAccessReview{} },
		Validate: func(obj kinds.Object) (errs field.ErrorList) {
			if obj.(*authorizationv1.SubjectAccessReview).Spec.User == "" {
				errs = append(errs, field.Required(field.NewPath("spec", "user"), ""))
			}
			return errs
		},
	}
}

func deploymentRow() *kinds.Kind {
	n := func() kinds.Object { return &appsv1.Deployment{} }
	return &kinds.Kind{
		GVK: appsv1.SchemeGroupVersion.WithKind("Deployment"), Resource: "deployments", Namespaced: true, Path: "deployments",
		Type: rowType("apps/v1", "Deployment", true, n), New: n,
		Default: func(obj kinds.Object) {
			if d := obj.(*appsv1.Deployment); d.Spec.Replicas == nil {
				one := int32(1)
				d.Spec.Replicas = &one
			}
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*appsv1.Deployment).Status = old.(*appsv1.Deployment).Status
		},
		HasGeneration: true, UnconditionalUpdate: true,
		Subresources: []kinds.Subresource{{
			Name: "scale", GVK: autoscalingv1.SchemeGroupVersion.WithKind("Scale"), Verbs: []string{"get", "patch", "update"},
			NewView: func() runtime.Object { return &autoscalingv1.Scale{} },
			View: func(obj kinds.Object) (runtime.Object, error) {
				d := obj.(*appsv1.Deployment)
				return &autoscalingv1.Scale{
					ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, UID: d.UID, ResourceVersion: d.ResourceVersion},
					Spec:       autoscalingv1.ScaleSpec{Replicas: *d.Spec.Replicas},
				}, nil
			},
			Apply: func(obj kinds.Object, view runtime.Object) field.ErrorList {
				replicas := view.(*autoscalingv1.Scale).Spec.Replicas
				obj.(*appsv1.Deployment).Spec.Replicas = &replicas
				return validation.ValidateNonnegativeField(int64(replicas), field.NewPath("spec", "replicas"))
			},
		}},
	}
}

// leaseRow is a kind that a PUT may create, and that must be updated with a resource version.
func leaseRow() *kinds.Kind {
	n := func() kinds.Object { return &coordinationv1.Lease{} }
	return &kinds.Kind{
		GVK: coordinationv1.SchemeGroupVersion.WithKind("Lease"), Resource: "leases", Namespaced: true, Path: "leases",
		Type: rowType("coordination.k8s.io/v1", "Lease", true, n), New: n,
		AllowCreateOnUpdate: true,
	}
}

// eventRow is a kind with a time to live.
func eventRow() *kinds.Kind {
	n := func() kinds.Object { return &corev1.Event{} }
	return &kinds.Kind{
		GVK: corev1.SchemeGroupVersion.WithKind("Event"), Resource: "events", Namespaced: true, Path: "events",
		Type: rowType("v1", "Event", true, n), New: n,
		TTL: func(kinds.Object) time.Duration { return time.Hour },
	}
}
