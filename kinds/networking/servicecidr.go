package networking

import (
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// ServiceCIDR is the row of the networks from which services get their cluster IPs (KEP-1880).
func ServiceCIDR() *kinds.Kind {
	return &kinds.Kind{
		GVK:      networkingv1.SchemeGroupVersion.WithKind("ServiceCIDR"),
		Resource: "servicecidrs",
		Singular: "servicecidr",
		Path:     "servicecidrs",
		Type: &object.Type{
			APIVersion: "networking.k8s.io/v1", Kind: "ServiceCIDR",
			New: func() runtime.Object { return &networkingv1.ServiceCIDR{} },
		},
		New:     func() kinds.Object { return &networkingv1.ServiceCIDR{} },
		NewList: func() runtime.Object { return &networkingv1.ServiceCIDRList{} },

		// The main resource takes the status, too: that is upstream's behaviour.
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateServiceCIDRs(obj.(*networkingv1.ServiceCIDR).Spec, field.NewPath("spec", "cidrs"))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateServiceCIDRUpdate(obj.(*networkingv1.ServiceCIDR).Spec, old.(*networkingv1.ServiceCIDR).Spec, field.NewPath("spec", "cidrs"))
		},
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("CIDRs", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			cidr := obj.(*networkingv1.ServiceCIDR)
			return []any{cidr.Name, strings.Join(cidr.Spec.CIDRs, ","), column.Since(cidr.CreationTimestamp, now)}
		},

		Subresources: []kinds.Subresource{{
			Name:  "status",
			Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*networkingv1.ServiceCIDR).Spec = *old.(*networkingv1.ServiceCIDR).Spec.DeepCopy()
			},
		}},
	}
}

// validateServiceCIDRs wants one network or one of each address family, in canonical form.
func validateServiceCIDRs(spec networkingv1.ServiceCIDRSpec, path *field.Path) field.ErrorList {
	cidrs := spec.CIDRs
	switch {
	case len(cidrs) == 0:
		return field.ErrorList{field.Required(path, "at least one CIDR required")}
	case len(cidrs) > 2:
		return field.ErrorList{field.Invalid(path, spec, "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	for i, cidr := range cidrs {
		errs = append(errs, validation.IsValidCIDR(path.Index(i), cidr)...)
	}
	if len(cidrs) == 2 {
		if family := netutils.IPFamilyOfCIDRString(cidrs[0]); family != netutils.IPFamilyUnknown && family == netutils.IPFamilyOfCIDRString(cidrs[1]) {
			errs = append(errs, field.Invalid(path, cidrs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
		}
	}
	return errs
}

// validateServiceCIDRUpdate lets nothing change but that a second network is added.
func validateServiceCIDRUpdate(spec, old networkingv1.ServiceCIDRSpec, path *field.Path) field.ErrorList {
	errs := validateServiceCIDRs(spec, path)
	cidrs, was := spec.CIDRs, old.CIDRs
	if len(cidrs) != len(was) && (len(cidrs) != 2 || len(was) != 1) {
		return append(errs, field.Invalid(path, cidrs, apivalidation.FieldImmutableErrorMsg))
	}
	for i := range was {
		if cidrs[i] != was[i] {
			errs = append(errs, field.Invalid(path.Index(i), cidrs[i], apivalidation.FieldImmutableErrorMsg))
		}
	}
	return errs
}
