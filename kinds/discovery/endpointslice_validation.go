package discovery

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// Limits of a slice.
const (
	maxEndpoints      = 1000
	maxAddresses      = 100 // of one endpoint
	maxPorts          = 20000
	maxHints          = 8 // of each sort
	maxTopologyLabels = 16
)

// validateSlice checks a slice. Addresses that the stored slice has already may be spelled as they are.
func validateSlice(slice *discoveryv1.EndpointSlice, stored validate.Stored) field.ErrorList {
	errs := validate.OneOf(slice.AddressType, field.NewPath("addressType"),
		discoveryv1.AddressTypeFQDN, discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6)
	path := field.NewPath("endpoints")
	if len(slice.Endpoints) > maxEndpoints {
		errs = append(errs, field.TooMany(path, len(slice.Endpoints), maxEndpoints))
	} else {
		for i := range slice.Endpoints {
			errs = append(errs, validateEndpoint(&slice.Endpoints[i], slice.AddressType, stored, path.Index(i))...)
		}
	}
	return append(errs, validatePorts(slice.Ports, field.NewPath("ports"))...)
}

func validateEndpoint(e *discoveryv1.Endpoint, family discoveryv1.AddressType, stored validate.Stored, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("addresses")
	switch n := len(e.Addresses); {
	case n == 0:
		errs = append(errs, field.Required(at, "must contain at least 1 address"))
	case n > maxAddresses:
		errs = append(errs, field.TooMany(at, n, maxAddresses))
	}
	for i, address := range e.Addresses {
		errs = append(errs, validateAddress(address, family, stored, at.Index(i))...)
	}
	if e.NodeName != nil {
		errs = append(errs, validate.Name(*e.NodeName, path.Child("nodeName"))...)
	}
	topology := path.Child("deprecatedTopology")
	if n := len(e.DeprecatedTopology); n > maxTopologyLabels {
		errs = append(errs, field.TooMany(topology, n, maxTopologyLabels))
	}
	errs = append(errs, metav1validation.ValidateLabels(e.DeprecatedTopology, topology)...)
	if _, found := e.DeprecatedTopology[corev1.LabelTopologyZone]; found {
		errs = append(errs, field.InternalError(topology.Key(corev1.LabelTopologyZone), errors.New("reserved key was not removed in conversion")))
	}
	if e.Hostname != nil {
		errs = append(errs, validate.Each(*e.Hostname, path.Child("hostname"), validation.IsDNS1123Label)...)
	}
	if e.Hints != nil {
		errs = append(errs, validateHints(e.Hints, path.Child("hints"))...)
	}
	return errs
}

// validateAddress checks an address against the slice's type. Of an unknown type, which is an error of its own,
// nothing is known.
func validateAddress(address string, family discoveryv1.AddressType, stored validate.Stored, path *field.Path) field.ErrorList {
	switch family {
	case discoveryv1.AddressTypeFQDN:
		return validation.IsFullyQualifiedDomainName(path, address)
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
	default:
		return nil
	}
	if errs := validate.LegacyIP(path, address, stored); len(errs) > 0 {
		return errs
	}
	var errs field.ErrorList
	if have := discoveryv1.AddressType(validate.FamilyOf(address)); have != family {
		errs = append(errs, field.Invalid(path, address, "must be an "+string(family)+" address"))
	}
	return append(errs, validate.OrdinaryIP(address, path)...)
}

func validateHints(hints *discoveryv1.EndpointHints, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	zones, nodes := path.Child("forZones"), path.Child("forNodes")
	if n := len(hints.ForZones); n > maxHints {
		errs = append(errs, field.TooMany(zones, n, maxHints))
	} else {
		seen := sets.New[string]()
		for i, zone := range hints.ForZones {
			at := zones.Index(i).Child("name")
			errs = append(errs, unique(seen, zone.Name, at)...)
			errs = append(errs, validate.Each(zone.Name, at, validation.IsValidLabelValue)...)
		}
	}
	if n := len(hints.ForNodes); n > maxHints {
		errs = append(errs, field.TooMany(nodes, n, maxHints))
	} else {
		seen := sets.New[string]()
		for i, node := range hints.ForNodes {
			at := nodes.Index(i).Child("name")
			errs = append(errs, unique(seen, node.Name, at)...)
			errs = append(errs, validate.Name(node.Name, at)...)
		}
	}
	return errs
}

func validatePorts(ports []discoveryv1.EndpointPort, path *field.Path) field.ErrorList {
	if len(ports) > maxPorts {
		return field.ErrorList{field.TooMany(path, len(ports), maxPorts)}
	}
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, port := range ports {
		at := path.Index(i)
		name := ""
		if port.Name != nil {
			name = *port.Name
		}
		if name != "" {
			errs = append(errs, validate.Each(name, at.Child("name"), validation.IsDNS1123Label)...)
		}
		errs = append(errs, unique(seen, name, at.Child("name"))...)
		if port.Protocol == nil {
			errs = append(errs, field.Required(at.Child("protocol"), ""))
		} else {
			errs = append(errs, protocol(*port.Protocol, at.Child("protocol"))...)
		}
		if port.AppProtocol != nil {
			errs = append(errs, validate.QualifiedName(*port.AppProtocol, at.Child("appProtocol"))...)
		}
	}
	return errs
}

// protocol is validate.Protocol, but that an empty one is unknown, not missing.
func protocol(p corev1.Protocol, path *field.Path) field.ErrorList {
	if p == "" {
		return field.ErrorList{field.NotSupported(path, p, []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP})}
	}
	return validate.Protocol(p, path)
}

// unique adds name to those that have been seen.
func unique(seen sets.Set[string], name string, path *field.Path) field.ErrorList {
	if seen.Has(name) {
		return field.ErrorList{field.Duplicate(path, name)}
	}
	seen.Insert(name)
	return nil
}
