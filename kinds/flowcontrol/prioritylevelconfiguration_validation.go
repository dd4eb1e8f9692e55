package flowcontrol

import (
	"fmt"
	"math"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
)

func validateLevel(l *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateLevelSpec(l.Name, &l.Spec, path)
	errs = append(errs, validateMandatoryLevel(l, path)...)
	return append(errs, validateLevelStatus(&l.Status, field.NewPath("status"))...)
}

// validateMandatoryLevel keeps the two levels that every server has as they are; of "exempt" the shares may change.
func validateMandatoryLevel(l *flowcontrolv1.PriorityLevelConfiguration, path *field.Path) field.ErrorList {
	for _, fixed := range bootstrap.MandatoryPriorityLevelConfigurations {
		if fixed.Name != l.Name {
			continue
		}
		want, detail := fixed.Spec.DeepCopy(), fmt.Sprintf("spec of '%s' must equal the fixed value", l.Name)
		if l.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			want.Exempt, detail = l.Spec.Exempt, fmt.Sprintf("spec of '%s' except the spec.exempt field must equal the fixed value", l.Name)
		}
		if !equality.Semantic.DeepEqual(l.Spec, *want) {
			return field.ErrorList{field.Invalid(path, l.Spec, detail)}
		}
	}
	return nil
}

func validateLevelSpec(name string, spec *flowcontrolv1.PriorityLevelConfigurationSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	exempt, limited := flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited
	if (name == flowcontrolv1.PriorityLevelConfigurationNameExempt) != (spec.Type == exempt) {
		errs = append(errs, field.Invalid(path.Child("type"), spec.Type, "type must be 'Exempt' if and only if name is 'exempt'"))
	}
	switch spec.Type {
	case exempt:
		if spec.Limited != nil {
			errs = append(errs, field.Forbidden(path.Child("limited"), "must be nil if the type is not Limited"))
		}
		if spec.Exempt == nil {
			return append(errs, field.Required(path.Child("exempt"), "must not be empty when type is Exempt"))
		}
		path = path.Child("exempt")
		errs = append(errs, notNegative(spec.Exempt.NominalConcurrencyShares, path.Child("nominalConcurrencyShares"), "must be a non-negative integer")...)
		errs = append(errs, validatePercent(spec.Exempt.LendablePercent, path.Child("lendablePercent"))...)
	case limited:
		if spec.Exempt != nil {
			errs = append(errs, field.Forbidden(path.Child("exempt"), "must be nil if the type is Limited"))
		}
		if spec.Limited == nil {
			return append(errs, field.Required(path.Child("limited"), "must not be empty when type is Limited"))
		}
		errs = append(errs, validateLimited(spec.Limited, path.Child("limited"))...)
	default:
		errs = append(errs, field.NotSupported(path.Child("type"), spec.Type, []flowcontrolv1.PriorityLevelEnablement{exempt, limited}))
	}
	return errs
}

func validateLimited(l *flowcontrolv1.LimitedPriorityLevelConfiguration, path *field.Path) field.ErrorList {
	errs := notNegative(l.NominalConcurrencyShares, path.Child("nominalConcurrencyShares"), "must be a non-negative integer")
	errs = append(errs, validateLimitResponse(&l.LimitResponse, path.Child("limitResponse"))...)
	errs = append(errs, validatePercent(l.LendablePercent, path.Child("lendablePercent"))...)
	return append(errs, notNegative(l.BorrowingLimitPercent, path.Child("borrowingLimitPercent"), "if specified, must be a non-negative integer")...)
}

func notNegative(value *int32, path *field.Path, detail string) field.ErrorList {
	if value != nil && *value < 0 {
		return field.ErrorList{field.Invalid(path, *value, detail)}
	}
	return nil
}

func validatePercent(value *int32, path *field.Path) field.ErrorList {
	if value != nil && (*value < 0 || *value > 100) {
		return field.ErrorList{field.Invalid(path, *value, "must be between 0 and 100, inclusive")}
	}
	return nil
}

// validateLimitResponse says Limited where it means Queue, as upstream does.
func validateLimitResponse(r *flowcontrolv1.LimitResponse, path *field.Path) field.ErrorList {
	switch r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if r.Queuing != nil {
			return field.ErrorList{field.Forbidden(path.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited")}
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if r.Queuing == nil {
			return field.ErrorList{field.Required(path.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited")}
		}
		return validateQueuing(r.Queuing, path.Child("queuing"))
	default:
		return field.ErrorList{field.NotSupported(path.Child("type"), r.Type, []flowcontrolv1.LimitResponseType{
			flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject,
		})}
	}
	return nil
}

const (
	maxQueues = 10_000_000
	// maxHashBits are the bits of a flow's hash that may be used up by dealing its hand of queues (shuffle sharding).
	maxHashBits = 60
)

func validateQueuing(q *flowcontrolv1.QueuingConfiguration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.QueueLengthLimit <= 0 {
		errs = append(errs, field.Invalid(path.Child("queueLengthLimit"), q.QueueLengthLimit, "must be positive"))
	}
	switch {
	case q.Queues <= 0:
		errs = append(errs, field.Invalid(path.Child("queues"), q.Queues, "must be positive"))
	case q.Queues > maxQueues:
		errs = append(errs, field.Invalid(path.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues)))
	}
	hand := path.Child("handSize")
	switch {
	case q.HandSize <= 0:
		errs = append(errs, field.Invalid(hand, q.HandSize, "must be positive"))
	case q.HandSize > q.Queues:
		errs = append(errs, field.Invalid(hand, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	case math.Ceil(math.Log2(float64(q.Queues))*float64(q.HandSize)) > maxHashBits:
		errs = append(errs, field.Invalid(hand, q.HandSize,
			fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, maxHashBits)))
	}
	return errs
}

func validateLevelStatus(status *flowcontrolv1.PriorityLevelConfigurationStatus, path *field.Path) field.ErrorList {
	var types []string
	for _, c := range status.Conditions {
		types = append(types, string(c.Type))
	}
	return validateConditionTypes(types, path.Child("conditions"))
}
