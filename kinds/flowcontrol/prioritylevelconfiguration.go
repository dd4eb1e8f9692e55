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

// PriorityLevelConfiguration is the row of prioritylevelconfigurations.
func PriorityLevelConfiguration() *kinds.Kind {
	queuing := flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:      flowcontrolv1.SchemeGroupVersion.WithKind("PriorityLevelConfiguration"),
		Resource: "prioritylevelconfigurations",
		Singular: "prioritylevelconfiguration",
		Path:     "prioritylevelconfigurations",
		Type: &object.Type{
			APIVersion: "flowcontrol.apiserver.k8s.io/v1", Kind: "PriorityLevelConfiguration",
			New: func() runtime.Object { return &flowcontrolv1.PriorityLevelConfiguration{} },
		},
		New:     func() kinds.Object { return &flowcontrolv1.PriorityLevelConfiguration{} },
		NewList: func() runtime.Object { return &flowcontrolv1.PriorityLevelConfigurationList{} },

		Default: func(obj kinds.Object) { defaultLevel(&obj.(*flowcontrolv1.PriorityLevelConfiguration).Spec) },
		PrepareCreate: func(obj kinds.Object) {
			obj.(*flowcontrolv1.PriorityLevelConfiguration).Status = flowcontrolv1.PriorityLevelConfigurationStatus{}
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*flowcontrolv1.PriorityLevelConfiguration).Status = *old.(*flowcontrolv1.PriorityLevelConfiguration).Status.DeepCopy()
		},
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateLevel(obj.(*flowcontrolv1.PriorityLevelConfiguration))
		},
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Type", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
			column.Text("NominalConcurrencyShares", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]),
			column.Text("Queues", queuing["queues"]),
			column.Text("HandSize", queuing["handSize"]),
			column.Text("QueueLengthLimit", queuing["queueLengthLimit"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			l := obj.(*flowcontrolv1.PriorityLevelConfiguration)
			var shares, queues, hand, length any = column.None, column.None, column.None, column.None
			if limited := l.Spec.Limited; limited != nil {
				if limited.NominalConcurrencyShares != nil {
					shares = int64(*limited.NominalConcurrencyShares)
				}
				if q := limited.LimitResponse.Queuing; q != nil {
					queues, hand, length = int64(q.Queues), int64(q.HandSize), int64(q.QueueLengthLimit)
				}
			}
			return []any{l.Name, string(l.Spec.Type), shares, queues, hand, length, column.Since(l.CreationTimestamp, now)}
		},

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*flowcontrolv1.PriorityLevelConfiguration).Spec = *old.(*flowcontrolv1.PriorityLevelConfiguration).Spec.DeepCopy()
				metav1.ResetObjectMetaForStatus(obj, old)
			},
			Validate: func(obj, _ kinds.Object) field.ErrorList {
				return validateLevelStatus(&obj.(*flowcontrolv1.PriorityLevelConfiguration).Status, field.NewPath("status"))
			},
		}},
	}
}

// Defaults of a limited level.
const (
	defaultShares           = 30
	defaultQueues           = 64
	defaultHandSize         = 8
	defaultQueueLengthLimit = 50
)

func defaultLevel(spec *flowcontrolv1.PriorityLevelConfigurationSpec) {
	orDefault := func(p **int32, value int32) {
		if *p == nil {
			*p = &value
		}
	}
	if spec.Type == flowcontrolv1.PriorityLevelEnablementExempt && spec.Exempt == nil {
		spec.Exempt = &flowcontrolv1.ExemptPriorityLevelConfiguration{}
	}
	if e := spec.Exempt; e != nil {
		orDefault(&e.NominalConcurrencyShares, 0)
		orDefault(&e.LendablePercent, 0)
	}
	l := spec.Limited
	if l == nil {
		return
	}
	orDefault(&l.NominalConcurrencyShares, defaultShares)
	orDefault(&l.LendablePercent, 0)
	if q := l.LimitResponse.Queuing; q != nil {
		for p, value := range map[*int32]int32{&q.Queues: defaultQueues, &q.HandSize: defaultHandSize, &q.QueueLengthLimit: defaultQueueLengthLimit} {
			if *p == 0 {
				*p = value
			}
		}
	}
}
