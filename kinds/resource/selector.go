package resource

import (
	"errors"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// validateSelectors checks the selectors of devices. Expressions that are stored already were fine when they were
// written, and so are not compiled again.
func validateSelectors(selectors []resourcev1.DeviceSelector, stored bool, path *field.Path) field.ErrorList {
	return each(selectors, resourcev1.DeviceSelectorsMaxSize, path, func(s *resourcev1.DeviceSelector, path *field.Path) field.ErrorList {
		path = path.Child("cel")
		switch {
		case s.CEL == nil:
			return field.ErrorList{field.Required(path, "")}
		case stored:
			return nil
		}
		return validateExpression(s.CEL.Expression, path.Child("expression"))
	})
}

// validateExpression compiles a selector.
func validateExpression(expression string, path *field.Path) field.ErrorList {
	if len(expression) > resourcev1.CELSelectorExpressionMaxLength {
		return field.ErrorList{field.TooLong(path, "", resourcev1.CELSelectorExpressionMaxLength)}
	}
	fresh := environment.NewExpressions
	result := dracel.GetCompiler(dracel.Features{EnableConsumableCapacity: true}).CompileCELExpression(expression, dracel.Options{EnvType: &fresh})
	switch {
	case result.Error != nil:
		return field.ErrorList{expressionError(result.Error, expression, path)}
	case result.MaxCost > resourcev1.CELSelectorExpressionMaxCost:
		return field.ErrorList{field.Forbidden(path, "too complex, exceeds cost limit")}
	}
	return nil
}

func expressionError(err error, expression string, path *field.Path) *field.Error {
	var broken *cel.Error
	if errors.As(err, &broken) {
		switch broken.Type {
		case cel.ErrorTypeRequired:
			return field.Required(path, broken.Detail)
		case cel.ErrorTypeInvalid:
			return field.Invalid(path, expression, broken.Detail)
		case cel.ErrorTypeInternal:
			return field.InternalError(path, broken)
		}
	}
	return field.InternalError(path, fmt.Errorf("unsupported error type: %w", err))
}
