package core

import (
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// Endpoints is the row of endpoints, deprecated in favour of endpointslices but still served.
func Endpoints() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("Endpoints"),
		Resource:   "endpoints",
		Singular:   "endpoints",
		ShortNames: []string{"ep"},
		Namespaced: true,
		Deprecated: "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
		Path:       "services/endpoints",
		Type: &object.Type{
			APIVersion: "v1", Kind: "Endpoints", Namespaced: true,
			New: func() runtime.Object { return &corev1.Endpoints{} },
		},
		New:     func() kinds.Object { return &corev1.Endpoints{} },
		NewList: func() runtime.Object { return &corev1.EndpointsList{} },

		Default: func(obj kinds.Object) { defaultEndpoints(obj.(*corev1.Endpoints)) },
		PrepareCreate: func(obj kinds.Object) {
			ep := obj.(*corev1.Endpoints)
			ep.Subsets = repackSubsets(ep.Subsets)
		},
		PrepareUpdate: func(obj, _ kinds.Object) {
			ep := obj.(*corev1.Endpoints)
			ep.Subsets = repackSubsets(ep.Subsets)
		},
		Validate: func(obj kinds.Object) field.ErrorList { return validateEndpoints(obj.(*corev1.Endpoints), nil) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateEndpoints(obj.(*corev1.Endpoints), validate.StoredOf(endpointAddresses(old.(*corev1.Endpoints))))
		},
		Warnings: func(obj, _ kinds.Object) []string { return endpointsWarnings(obj.(*corev1.Endpoints)) },

		AllowCreateOnUpdate: true,
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Endpoints", corev1.Endpoints{}.SwaggerDoc()["subsets"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			ep := obj.(*corev1.Endpoints)
			return []any{ep.Name, formatSubsets(ep.Subsets), column.Since(ep.CreationTimestamp, now)}
		},
	}
}

func defaultEndpoints(ep *corev1.Endpoints) {
	for i := range ep.Subsets {
		for j := range ep.Subsets[i].Ports {
			if port := &ep.Subsets[i].Ports[j]; port.Protocol == "" {
				port.Protocol = corev1.ProtocolTCP
			}
		}
	}
}

// validateEndpoints checks endpoints; the spelling of addresses that were stored already is not questioned.
func validateEndpoints(ep *corev1.Endpoints, stored validate.Stored) field.ErrorList {
	var errs field.ErrorList
	if value, found := ep.Annotations[corev1.EndpointsLastChangeTriggerTime]; found {
		if _, err := time.Parse(time.RFC3339Nano, value); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("annotations").Child(corev1.EndpointsLastChangeTriggerTime), value, err.Error()))
		}
	}
	if n := repackedSize(ep.Subsets, groupPorts(ep.Subsets)); n > maxRepacked {
		return append(errs, field.TooMany(field.NewPath("subsets"), n, maxRepacked))
	}
	for i, subset := range ep.Subsets {
		path := field.NewPath("subsets").Index(i)
		if len(subset.Addresses) == 0 && len(subset.NotReadyAddresses) == 0 {
			errs = append(errs, field.Required(path, "must specify `addresses` or `notReadyAddresses`"))
		}
		for j := range subset.Addresses {
			errs = append(errs, validateEndpointAddress(&subset.Addresses[j], stored, path.Child("addresses").Index(j))...)
		}
		for j := range subset.NotReadyAddresses {
			errs = append(errs, validateEndpointAddress(&subset.NotReadyAddresses[j], stored, path.Child("notReadyAddresses").Index(j))...)
		}
		for j := range subset.Ports {
			errs = append(errs, validateEndpointPort(&subset.Ports[j], len(subset.Ports) > 1, path.Child("ports").Index(j))...)
		}
	}
	return errs
}

func validateEndpointAddress(address *corev1.EndpointAddress, stored validate.Stored, path *field.Path) field.ErrorList {
	errs := validate.LegacyIP(path.Child("ip"), address.IP, stored)
	if address.Hostname != "" {
		errs = append(errs, validate.Each(address.Hostname, path.Child("hostname"), validation.IsDNS1123Label)...)
	}
	if address.NodeName != nil {
		errs = append(errs, validate.Name(*address.NodeName, path.Child("nodeName"))...)
	}
	if len(errs) == 0 {
		errs = append(errs, validate.OrdinaryIP(address.IP, path.Child("ip"))...)
	}
	return errs
}

func validateEndpointPort(port *corev1.EndpointPort, nameRequired bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if nameRequired && port.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else if port.Name != "" {
		errs = append(errs, validate.Each(port.Name, path.Child("name"), validation.IsDNS1123Label)...)
	}
	errs = append(errs, validate.PortNumber(port.Port, path.Child("port"))...)
	errs = append(errs, validate.Protocol(port.Protocol, path.Child("protocol"))...)
	if port.AppProtocol != nil {
		errs = append(errs, validate.QualifiedName(*port.AppProtocol, path.Child("appProtocol"))...)
	}
	return errs
}

func endpointAddresses(ep *corev1.Endpoints) []string {
	var ips []string
	for _, subset := range ep.Subsets {
		for _, a := range subset.Addresses {
			ips = append(ips, a.IP)
		}
		for _, a := range subset.NotReadyAddresses {
			ips = append(ips, a.IP)
		}
	}
	return ips
}

func endpointsWarnings(ep *corev1.Endpoints) []string {
	var warnings []string
	for i, subset := range ep.Subsets {
		path := field.NewPath("subsets").Index(i)
		for j, a := range subset.Addresses {
			warnings = append(warnings, validate.IPWarnings(path.Child("addresses").Index(j).Child("ip"), a.IP)...)
		}
		for j, a := range subset.NotReadyAddresses {
			warnings = append(warnings, validate.IPWarnings(path.Child("notReadyAddresses").Index(j).Child("ip"), a.IP)...)
		}
	}
	return warnings
}

// formatSubsets shows up to three ready addresses with their ports and counts the rest.
func formatSubsets(subsets []corev1.EndpointSubset) string {
	const shown = 3
	if len(subsets) == 0 {
		return column.None
	}
	var list []string
	total := 0
	add := func(text string) {
		if total++; total <= shown {
			list = append(list, text)
		}
	}
	for _, subset := range subsets {
		if len(subset.Ports) == 0 { // headless services may have none
			for _, a := range subset.Addresses {
				add(a.IP)
			}
		}
		for _, port := range subset.Ports {
			for _, a := range subset.Addresses {
				add(net.JoinHostPort(a.IP, strconv.Itoa(int(port.Port))))
			}
		}
	}
	text := strings.Join(list, ",")
	if total > shown {
		text += " + " + strconv.Itoa(total-shown) + " more..."
	}
	return text
}
