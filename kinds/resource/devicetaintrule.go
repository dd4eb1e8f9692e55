package resource

import (
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/object"
)

// DeviceTaintRule is the row of the rules by which administrators taint devices.
func DeviceTaintRule() *kinds.Kind {
	return &kinds.Kind{
		GVK:      resourcev1.SchemeGroupVersion.WithKind("DeviceTaintRule"),
		Resource: "devicetaintrules",
		Singular: "devicetaintrule",
		Path:     "devicetaintrules",
		Type: &object.Type{
			APIVersion: "resource.k8s.io/v1", Kind: "DeviceTaintRule",
			New: func() runtime.Object { return &resourcev1.DeviceTaintRule{} },
		},
		New:     func() kinds.Object { return &resourcev1.DeviceTaintRule{} },
		NewList: func() runtime.Object { return &resourcev1.DeviceTaintRuleList{} },

		PrepareCreate: func(obj kinds.Object) {
			rule := obj.(*resourcev1.DeviceTaintRule)
			rule.Status = resourcev1.DeviceTaintRuleStatus{}
			addTime(&rule.Spec.Taint)
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			rule, was := obj.(*resourcev1.DeviceTaintRule), old.(*resourcev1.DeviceTaintRule)
			rule.Status = *was.Status.DeepCopy()
			addTime(&rule.Spec.Taint)
			// The time is that of the effect. Who changes one and not the other has forgotten.
			if rule.Spec.Taint.Effect != was.Spec.Taint.Effect && rule.Spec.Taint.TimeAdded.Equal(was.Spec.Taint.TimeAdded) {
				rule.Spec.Taint.TimeAdded = now()
			}
		},
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateRule(&obj.(*resourcev1.DeviceTaintRule).Spec, nil, field.NewPath("spec"))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateRule(&obj.(*resourcev1.DeviceTaintRule).Spec, &old.(*resourcev1.DeviceTaintRule).Spec.Taint, field.NewPath("spec"))
		},

		Columns: []metav1.TableColumnDefinition{column.Name(), column.Age()},
		Row: func(obj kinds.Object, now time.Time) []any {
			return []any{obj.GetName(), column.Since(obj.GetCreationTimestamp(), now)}
		},

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*resourcev1.DeviceTaintRule).Spec = *old.(*resourcev1.DeviceTaintRule).Spec.DeepCopy()
				metav1.ResetObjectMetaForStatus(obj, old)
			},
			Validate: func(obj, _ kinds.Object) field.ErrorList {
				conditions, path := obj.(*resourcev1.DeviceTaintRule).Status.Conditions, field.NewPath("status", "conditions")
				errs := metav1validation.ValidateConditions(conditions, path)
				if len(conditions) > resourcev1.DeviceTaintRuleStatusMaxConditions {
					errs = append(errs, field.TooMany(path, len(conditions), resourcev1.DeviceTaintRuleStatusMaxConditions))
				}
				return errs
			},
		}},
	}
}

func validateRule(spec *resourcev1.DeviceTaintRuleSpec, oldTaint *resourcev1.DeviceTaint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s := spec.DeviceSelector; s != nil {
		at := path.Child("deviceSelector")
		if s.Driver != nil {
			errs = append(errs, podspec.CSIDriverName(*s.Driver, at.Child("driver"))...)
		}
		if s.Pool != nil {
			errs = append(errs, validatePoolName(*s.Pool, at.Child("pool"))...)
		}
		if s.Device != nil {
			errs = append(errs, validateLabel(*s.Device, at.Child("device"))...)
		}
	}
	return append(errs, validateTaint(&spec.Taint, oldTaint, path.Child("taint"))...)
}
