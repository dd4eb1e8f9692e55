package networking

import (
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// IPAddress is the row of IP addresses: each address in use within a ServiceCIDR has an object of its name, which
// refers to what uses it.
func IPAddress() *kinds.Kind {
	return &kinds.Kind{
		GVK:        networkingv1.SchemeGroupVersion.WithKind("IPAddress"),
		Resource:   "ipaddresses",
		Singular:   "ipaddress",
		ShortNames: []string{"ip"},
		Path:       "ipaddresses",
		Type: &object.Type{
			APIVersion: "networking.k8s.io/v1", Kind: "IPAddress",
			New: func() runtime.Object { return &networkingv1.IPAddress{} },
		},
		New:     func() kinds.Object { return &networkingv1.IPAddress{} },
		NewList: func() runtime.Object { return &networkingv1.IPAddressList{} },

		ValidateName: func(name string, _ bool) []string {
			var texts []string
			for _, err := range validation.IsValidIP(nil, name) {
				texts = append(texts, err.Detail)
			}
			return texts
		},
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateParent(obj.(*networkingv1.IPAddress).Spec.ParentRef, field.NewPath("spec", "parentRef"))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			path := field.NewPath("spec", "parentRef")
			parent, was := obj.(*networkingv1.IPAddress).Spec.ParentRef, old.(*networkingv1.IPAddress).Spec.ParentRef
			return append(validateParent(parent, path), validate.Immutable(parent, was, path)...)
		},
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("ParentRef", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"]),
		},
		Row: func(obj kinds.Object, _ time.Time) []any {
			address := obj.(*networkingv1.IPAddress)
			return []any{address.Name, parentText(address.Spec.ParentRef)}
		},
	}
}

// parentText shows a reference as resource[.group]/[namespace/]name: services/default/x.
func parentText(parent *networkingv1.ParentReference) string {
	if parent == nil {
		return column.None
	}
	parts := []string{parent.Resource, parent.Namespace, parent.Name}
	if parent.Group != "" {
		parts[0] += "." + parent.Group
	}
	if parent.Namespace == "" {
		parts = append(parts[:1], parent.Name)
	}
	return strings.Join(parts, "/")
}

func validateParent(parent *networkingv1.ParentReference, path *field.Path) field.ErrorList {
	if parent == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if parent.Group != "" { // empty is the group of services
		errs = append(errs, validate.Each(parent.Group, path.Child("group"), validation.IsDNS1123Subdomain)...)
	}
	errs = append(errs, requiredSegment(parent.Resource, path.Child("resource"))...)
	errs = append(errs, requiredSegment(parent.Name, path.Child("name"))...)
	if parent.Namespace != "" {
		errs = append(errs, validate.Each(parent.Namespace, path.Child("namespace"), content.IsPathSegmentName)...)
	}
	return errs
}

// requiredSegment wants a text that can be a segment of a path.
func requiredSegment(text string, path *field.Path) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return validate.Each(text, path, content.IsPathSegmentName)
}
