package apiextensions

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateDefinition checks a definition; old is the stored one, or nil.
func validateDefinition(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	return check(crd, old, func(crd, old *apiextensions.CustomResourceDefinition) field.ErrorList {
		if old == nil {
			return validation.ValidateCustomResourceDefinition(context.Background(), crd)
		}
		return validation.ValidateCustomResourceDefinitionUpdate(context.Background(), crd, old)
	})
}

func validateStatus(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	return check(crd, old, func(crd, old *apiextensions.CustomResourceDefinition) field.ErrorList {
		return validation.ValidateUpdateCustomResourceDefinitionStatus(context.Background(), crd, old)
	})
}

// check lets upstream's library look at definitions in the version that it knows. What it says of metadata has been
// checked already, but for the two rules that are those of definitions.
func check(crd, old *apiextensionsv1.CustomResourceDefinition, look func(crd, old *apiextensions.CustomResourceDefinition) field.ErrorList) field.ErrorList {
	given, err := internal(crd)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	var stored *apiextensions.CustomResourceDefinition
	if old != nil {
		if stored, err = internal(old); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
	}
	approval := field.NewPath("metadata", "annotations").Key(apiextensionsv1.KubeAPIApprovedAnnotation).String()
	return slices.DeleteFunc(look(given, stored), func(err *field.Error) bool {
		const name = `must be spec.names.plural+"."+spec.group`
		return strings.HasPrefix(err.Field, "metadata.") && err.Field != approval && err.Detail != name
	})
}
