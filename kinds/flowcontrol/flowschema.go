package flowcontrol

import (
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

const defaultPrecedence = 1000

// FlowSchema is the row of flowschemas.
func FlowSchema() *kinds.Kind {
	spec := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:      flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema"),
		Resource: "flowschemas",
		Singular: "flowschema",
		Path:     "flowschemas",
		Type: &object.Type{
			APIVersion: "flowcontrol.apiserver.k8s.io/v1", Kind: "FlowSchema",
			New: func() runtime.Object { return &flowcontrolv1.FlowSchema{} },
		},
		New:     func() kinds.Object { return &flowcontrolv1.FlowSchema{} },
		NewList: func() runtime.Object { return &flowcontrolv1.FlowSchemaList{} },

		Default: func(obj kinds.Object) {
			if s := &obj.(*flowcontrolv1.FlowSchema).Spec; s.MatchingPrecedence == 0 {
				s.MatchingPrecedence = defaultPrecedence
			}
		},
		PrepareCreate: func(obj kinds.Object) {
			obj.(*flowcontrolv1.FlowSchema).Status = flowcontrolv1.FlowSchemaStatus{}
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*flowcontrolv1.FlowSchema).Status = *old.(*flowcontrolv1.FlowSchema).Status.DeepCopy()
		},
		HasGeneration:       true,
		Validate:            func(obj kinds.Object) field.ErrorList { return validateFlowSchema(obj.(*flowcontrolv1.FlowSchema)) },
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
			column.Text("MatchingPrecedence", spec["matchingPrecedence"]),
			column.Text("DistinguisherMethod", spec["distinguisherMethod"]),
			column.Age(),
			column.Text("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			f := obj.(*flowcontrolv1.FlowSchema)
			method := column.None
			if m := f.Spec.DistinguisherMethod; m != nil {
				method = string(m.Type)
			}
			dangling := "?"
			for _, c := range f.Status.Conditions {
				if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
					dangling = string(c.Status)
					break
				}
			}
			return []any{f.Name, f.Spec.PriorityLevelConfiguration.Name, int64(f.Spec.MatchingPrecedence), method, column.Since(f.CreationTimestamp, now), dangling}
		},

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*flowcontrolv1.FlowSchema).Spec = *old.(*flowcontrolv1.FlowSchema).Spec.DeepCopy()
				metav1.ResetObjectMetaForStatus(obj, old)
			},
			Validate: func(obj, _ kinds.Object) field.ErrorList {
				return validateFlowSchemaStatus(&obj.(*flowcontrolv1.FlowSchema).Status, field.NewPath("status"))
			},
		}},
	}
}
