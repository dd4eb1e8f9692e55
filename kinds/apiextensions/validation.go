package apiextensions

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// validateDefinition checks a definition; before is the stored one, or nil.
func validateDefinition(given, before *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	crd, err := internal(given)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	var old *apiextensions.CustomResourceDefinition
	if before != nil {
		if old, err = internal(before); err != nil {
			return field.ErrorList{field.InternalError(nil, err)}
		}
	}
	path, status := field.NewPath("spec"), field.NewPath("status")
	var errs field.ErrorList
	if crd.Name != crd.Spec.Names.Plural+"."+crd.Spec.Group && old == nil {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), crd.Name, `must be spec.names.plural+"."+spec.group`))
	}
	errs = append(errs, validateSpec(&crd.Spec, newLenience(old), path)...)
	if old != nil {
		errs = append(errs, validateFixed(crd, old, path)...)
	}
	errs = append(errs, validateNames(&crd.Status.AcceptedNames, status.Child("acceptedNames"))...)
	errs = append(errs, validateStoredVersions(crd, status.Child("storedVersions"))...)
	errs = append(errs, validateApproval(given, before)...)
	if p := crd.Spec.PreserveUnknownFields; p != nil && *p && !(old != nil && preserves(&old.Spec)) {
		errs = append(errs, field.Invalid(path.Child("preserveUnknownFields"), true,
			"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"))
	}
	return errs
}

func preserves(spec *apiextensions.CustomResourceDefinitionSpec) bool {
	return spec.PreserveUnknownFields != nil && *spec.PreserveUnknownFields
}

func validateStatus(given *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	crd, err := internal(given)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	return validateNames(&crd.Status.AcceptedNames, field.NewPath("status", "acceptedNames"))
}

// validateFixed refuses changes of what the place and the meaning of stored objects depend on.
func validateFixed(crd, old *apiextensions.CustomResourceDefinition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if apiextensions.IsCRDConditionTrue(old, apiextensions.Established) {
		errs = append(errs, validate.Immutable(crd.Spec.Scope, old.Spec.Scope, path.Child("scope"))...)
		errs = append(errs, validate.Immutable(crd.Spec.Names.Kind, old.Spec.Names.Kind, path.Child("names", "kind"))...)
	}
	errs = append(errs, validate.Immutable(crd.Spec.Group, old.Spec.Group, path.Child("group"))...)
	return append(errs, validate.Immutable(crd.Spec.Names.Plural, old.Spec.Names.Plural, path.Child("names", "plural"))...)
}

// validateApproval wants groups of the Kubernetes community to say who approved of the API.
func validateApproval(crd, old *apiextensionsv1.CustomResourceDefinition) field.ErrorList {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return nil
	}
	state, why := apihelpers.GetAPIApprovalState(crd.Annotations)
	if old != nil {
		if before, _ := apihelpers.GetAPIApprovalState(old.Annotations); before == state {
			return nil
		}
	}
	path := field.NewPath("metadata", "annotations").Key(apiextensionsv1.KubeAPIApprovedAnnotation)
	switch state {
	case apihelpers.APIApproved, apihelpers.APIApprovalBypassed:
		return nil
	case apihelpers.APIApprovalMissing:
		return field.ErrorList{field.Required(path, why)}
	default:
		return field.ErrorList{field.Invalid(path, crd.Annotations[apiextensionsv1.KubeAPIApprovedAnnotation], why)}
	}
}

func validateStoredVersions(crd *apiextensions.CustomResourceDefinition, path *field.Path) field.ErrorList {
	stored := crd.Status.StoredVersions
	if len(stored) == 0 {
		return field.ErrorList{field.Invalid(path, stored, "must have at least one stored version")}
	}
	var errs field.ErrorList
	known := sets.New[string]()
	for _, v := range crd.Spec.Versions {
		known.Insert(v.Name)
		if v.Storage && !slices.Contains(stored, v.Name) {
			errs = append(errs, field.Invalid(path, stored, "must have the storage version "+v.Name))
		}
	}
	for i, v := range stored {
		if !known.Has(v) {
			errs = append(errs, field.Invalid(path.Index(i), v, fmt.Sprintf("missing from spec.versions; %[1]s was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in %[1]s and removes %[1]s from status.storedVersions", v)))
		}
	}
	return errs
}

// validateNames checks the names that are given.
func validateNames(names *apiextensions.CustomResourceDefinitionNames, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	label := func(at *field.Path, name string) {
		if why := validation.IsDNS1035Label(name); len(why) > 0 {
			errs = append(errs, field.Invalid(at, name, strings.Join(why, ",")))
		}
	}
	kind := func(at *field.Path, name string) {
		if why := validation.IsDNS1035Label(strings.ToLower(name)); name != "" && len(why) > 0 {
			errs = append(errs, field.Invalid(at, name, "may have mixed case, but should otherwise match: "+strings.Join(why, ",")))
		}
	}
	if names.Plural != "" {
		label(path.Child("plural"), names.Plural)
	}
	if names.Singular != "" {
		label(path.Child("singular"), names.Singular)
	}
	kind(path.Child("kind"), names.Kind)
	kind(path.Child("listKind"), names.ListKind)
	for i, name := range names.ShortNames {
		label(path.Child("shortNames").Index(i), name)
	}
	if names.Kind != "" && names.Kind == names.ListKind {
		errs = append(errs, field.Invalid(path.Child("listKind"), names.ListKind, "kind and listKind may not be the same"))
	}
	for i, category := range names.Categories {
		label(path.Child("categories").Index(i), category)
	}
	return errs
}
