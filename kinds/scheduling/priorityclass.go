package scheduling

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

const (
	// HighestUserPriority is the highest value that a class may have unless it is one of SystemClasses.
	HighestUserPriority = int32(1000000000)

	systemPrefix = "system-"
)

// SystemClasses returns the classes that every cluster has, new ones at each call, in the order in which they are
// created. No other name may begin with "system-". Follows upstream's pkg/apis/scheduling/v1/helpers.go.
func SystemClasses() []*schedulingv1.PriorityClass {
	preempt := corev1.PreemptLowerPriority
	return []*schedulingv1.PriorityClass{
		{
			ObjectMeta:       metav1.ObjectMeta{Name: "system-node-critical"},
			Value:            2*HighestUserPriority + 1000,
			Description:      "Used for system critical pods that must not be moved from their current node.",
			PreemptionPolicy: &preempt,
		},
		{
			ObjectMeta:       metav1.ObjectMeta{Name: "system-cluster-critical"},
			Value:            2 * HighestUserPriority,
			Description:      "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
			PreemptionPolicy: &preempt,
		},
	}
}

// PriorityClass is the row of priority classes.
func PriorityClass() *kinds.Kind {
	doc := schedulingv1.PriorityClass{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:        schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"),
		Resource:   "priorityclasses",
		Singular:   "priorityclass",
		ShortNames: []string{"pc"},
		Path:       "priorityclasses",
		Type: &object.Type{
			APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass",
			New: func() runtime.Object { return &schedulingv1.PriorityClass{} },
		},
		New:     func() kinds.Object { return &schedulingv1.PriorityClass{} },
		NewList: func() runtime.Object { return &schedulingv1.PriorityClassList{} },

		Default: func(obj kinds.Object) {
			if class := obj.(*schedulingv1.PriorityClass); class.PreemptionPolicy == nil {
				preempt := corev1.PreemptLowerPriority
				class.PreemptionPolicy = &preempt
			}
		},
		// Upstream sets the generation once and never counts it.
		PrepareCreate: func(obj kinds.Object) { obj.SetGeneration(1) },
		Validate: func(obj kinds.Object) field.ErrorList {
			return validatePriorityClass(obj.(*schedulingv1.PriorityClass))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validatePriorityClassUpdate(obj.(*schedulingv1.PriorityClass), old.(*schedulingv1.PriorityClass))
		},
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Integer("Value", doc["value"]),
			column.Boolean("Global-Default", doc["globalDefault"]),
			column.Age(),
			column.Text("PreemptionPolicy", doc["preemptionPolicy"]),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			class := obj.(*schedulingv1.PriorityClass)
			policy := ""
			if class.PreemptionPolicy != nil {
				policy = string(*class.PreemptionPolicy)
			}
			return []any{class.Name, int64(class.Value), class.GlobalDefault, column.Since(class.CreationTimestamp, now), policy}
		},
	}
}

func validatePriorityClass(class *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if strings.HasPrefix(class.Name, systemPrefix) {
		if why := notSystem(class); why != "" {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with '"+systemPrefix+"' prefix are reserved for system use only. error: "+why))
		}
	} else if class.Value > HighestUserPriority {
		errs = append(errs, field.Forbidden(field.NewPath("value"),
			fmt.Sprintf("maximum allowed value of a user defined priority is %v", HighestUserPriority)))
	}
	if class.PreemptionPolicy != nil {
		errs = append(errs, validate.OneOf(*class.PreemptionPolicy, field.NewPath("preemptionPolicy"), corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return errs
}

// notSystem says why a class is none of the system's own, "" when it is one.
func notSystem(class *schedulingv1.PriorityClass) string {
	for _, known := range SystemClasses() {
		switch {
		case known.Name != class.Name:
		case known.Value != class.Value:
			return fmt.Sprintf("value of %v PriorityClass must be %v", known.Name, known.Value)
		case known.GlobalDefault != class.GlobalDefault:
			return fmt.Sprintf("globalDefault of %v PriorityClass must be %v", known.Name, known.GlobalDefault)
		default:
			return ""
		}
	}
	return fmt.Sprintf("%v is not a known system priority class", class.Name)
}

func validatePriorityClassUpdate(class, old *schedulingv1.PriorityClass) field.ErrorList {
	var errs field.ErrorList
	if class.Value != old.Value {
		errs = append(errs, field.Forbidden(field.NewPath("value"), "may not be changed in an update."))
	}
	return append(errs, validate.Immutable(class.PreemptionPolicy, old.PreemptionPolicy, field.NewPath("preemptionPolicy"))...)
}
