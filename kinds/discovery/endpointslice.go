package discovery

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// EndpointSlice is the row of endpoint slices.
func EndpointSlice() *kinds.Kind {
	doc := discoveryv1.EndpointSlice{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:        discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"),
		Resource:   "endpointslices",
		Singular:   "endpointslice",
		Namespaced: true,
		Path:       "endpointslices",
		Type: &object.Type{
			APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice", Namespaced: true,
			New: func() runtime.Object { return &discoveryv1.EndpointSlice{} },
		},
		New:     func() kinds.Object { return &discoveryv1.EndpointSlice{} },
		NewList: func() runtime.Object { return &discoveryv1.EndpointSliceList{} },

		Default:       func(obj kinds.Object) { defaultPorts(obj.(*discoveryv1.EndpointSlice)) },
		PrepareCreate: func(obj kinds.Object) { dropTopology(obj.(*discoveryv1.EndpointSlice), nil) },
		PrepareUpdate: func(obj, old kinds.Object) {
			dropTopology(obj.(*discoveryv1.EndpointSlice), old.(*discoveryv1.EndpointSlice))
		},
		HasGeneration: true,
		SameMetadata:  kinds.SameLabels,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateSlice(obj.(*discoveryv1.EndpointSlice), nil)
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			slice, was := obj.(*discoveryv1.EndpointSlice), old.(*discoveryv1.EndpointSlice)
			return append(validateSlice(slice, validate.StoredOf(addresses(was))),
				validate.Immutable(slice.AddressType, was.AddressType, field.NewPath("addressType"))...)
		},
		Warnings:            func(obj, _ kinds.Object) []string { return warnings(obj.(*discoveryv1.EndpointSlice)) },
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("AddressType", doc["addressType"]),
			column.Text("Ports", doc["ports"]),
			column.Text("Endpoints", doc["endpoints"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			slice := obj.(*discoveryv1.EndpointSlice)
			return []any{
				slice.Name, string(slice.AddressType), firstThree(portTexts(slice.Ports)), firstThree(addresses(slice)),
				column.Since(slice.CreationTimestamp, now),
			}
		},
	}
}

func defaultPorts(slice *discoveryv1.EndpointSlice) {
	for i := range slice.Ports {
		port := &slice.Ports[i]
		if port.Name == nil {
			port.Name = new(string)
		}
		if port.Protocol == nil {
			tcp := corev1.ProtocolTCP
			port.Protocol = &tcp
		}
	}
}

// dropTopology drops a field that v1 can only read, unless the endpoints are unchanged. A node name that an old object
// has nowhere but there is kept as nodeName.
func dropTopology(slice, old *discoveryv1.EndpointSlice) {
	nodes := sets.New[string]()
	if old != nil {
		if equality.Semantic.DeepEqual(slice.Endpoints, old.Endpoints) {
			return
		}
		for _, e := range old.Endpoints {
			if node, found := e.DeprecatedTopology[corev1.LabelHostname]; found {
				nodes.Insert(node)
			}
		}
	}
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		node, found := e.DeprecatedTopology[corev1.LabelHostname]
		if found && e.NodeName == nil && nodes.Has(node) && len(apivalidation.NameIsDNSSubdomain(node, false)) == 0 {
			e.NodeName = &node
		}
		e.DeprecatedTopology = nil
	}
}

func warnings(slice *discoveryv1.EndpointSlice) []string {
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return []string{"addressType: FQDN endpoints are deprecated"}
	}
	var texts []string
	for i, e := range slice.Endpoints {
		for j, address := range e.Addresses {
			texts = append(texts, validate.IPWarnings(field.NewPath("endpoints").Index(i).Child("addresses").Index(j), address)...)
		}
	}
	return texts
}

// addresses returns the addresses of all endpoints.
func addresses(slice *discoveryv1.EndpointSlice) []string {
	var all []string
	for _, e := range slice.Endpoints {
		all = append(all, e.Addresses...)
	}
	return all
}

// portTexts shows each port as its number or, where it has none, its name.
func portTexts(ports []discoveryv1.EndpointPort) []string {
	texts := make([]string, len(ports))
	for i, port := range ports {
		switch {
		case port.Port != nil:
			texts[i] = strconv.Itoa(int(*port.Port))
		case port.Name != nil:
			texts[i] = *port.Name
		default:
			texts[i] = "*"
		}
	}
	return texts
}

func firstThree(texts []string) string {
	const most = 3
	if len(texts) > most {
		return fmt.Sprintf("%s + %d more...", strings.Join(texts[:most], ","), len(texts)-most)
	}
	return column.Or(strings.Join(texts, ","), column.Unset)
}
