package discovery

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

type slice = kindtest.Case[discoveryv1.EndpointSlice]

func good() *discoveryv1.EndpointSlice {
	tcp := corev1.ProtocolTCP
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1"},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.1.2.3"}}},
		Ports:       []discoveryv1.EndpointPort{{Name: kindtest.Ptr("http"), Port: kindtest.Ptr(int32(80)), Protocol: &tcp}},
	}
}

func TestEndpointSlice_Minimal(t *testing.T) {
	kindtest.Minimal(t, EndpointSlice(),
		`{metadata: {namespace: default, name: x}, addressType: IPv4, endpoints: [{addresses: [10.0.0.1], deprecatedTopology: {a: b}}], ports: [{port: 80}]}`,
		`{metadata: {namespace: default, name: x, generation: 1}, addressType: IPv4, endpoints: [{addresses: [10.0.0.1]}], ports: [{port: 80, name: "", protocol: TCP}]}`)
}

func TestEndpointSlice_Create(t *testing.T) {
	endpoint := func(edit func(*discoveryv1.Endpoint)) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { edit(&s.Endpoints[0]) }
	}
	port := func(edit func(*discoveryv1.EndpointPort)) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { edit(&s.Ports[0]) }
	}
	kindtest.Create(t, EndpointSlice(), good(),
		slice{Name: "empty", Edit: func(s *discoveryv1.EndpointSlice) { s.Endpoints, s.Ports = nil, nil }},
		slice{
			Name: "no type", Edit: func(s *discoveryv1.EndpointSlice) { s.AddressType = "" },
			Want: []string{"addressType: Required value"},
		},
		slice{
			Name: "type", Edit: func(s *discoveryv1.EndpointSlice) { s.AddressType = "IP" },
			Want: []string{`addressType: Unsupported value: "IP": supported values: "FQDN", "IPv4", "IPv6"`},
		},
		slice{
			Name: "too many endpoints", Edit: func(s *discoveryv1.EndpointSlice) { s.Endpoints = make([]discoveryv1.Endpoint, maxEndpoints+1) },
			Want: []string{"endpoints: Too many: 1001: must have at most 1000 items"},
		},
		slice{
			Name: "no address", Edit: endpoint(func(e *discoveryv1.Endpoint) { e.Addresses = nil }),
			Want: []string{"endpoints[0].addresses: Required value: must contain at least 1 address"},
		},
		slice{
			Name: "too many addresses", Edit: endpoint(func(e *discoveryv1.Endpoint) {
				e.Addresses = strings.Split(strings.Repeat("10.0.0.1 ", maxAddresses)+"10.0.0.1", " ")
			}),
			Want: []string{"endpoints[0].addresses: Too many: 101: must have at most 100 items"},
		},
		slice{
			Name: "text as address", Edit: endpoint(func(e *discoveryv1.Endpoint) { e.Addresses[0] = "x" }),
			Want: []string{`endpoints[0].addresses[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`},
		},
		slice{
			Name: "other family", Edit: endpoint(func(e *discoveryv1.Endpoint) { e.Addresses[0] = "fd00::1" }),
			Want: []string{`endpoints[0].addresses[0]: Invalid value: "fd00::1": must be an IPv4 address`},
		},
		slice{
			Name: "loopback", Edit: func(s *discoveryv1.EndpointSlice) {
				s.AddressType, s.Endpoints[0].Addresses[0] = discoveryv1.AddressTypeIPv6, "::1"
			},
			Want: []string{`endpoints[0].addresses[0]: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)`},
		},
		slice{Name: "host name", Edit: func(s *discoveryv1.EndpointSlice) {
			s.AddressType, s.Endpoints[0].Addresses[0] = discoveryv1.AddressTypeFQDN, "www.example.com"
		}},
		slice{
			Name: "short host name", Edit: func(s *discoveryv1.EndpointSlice) {
				s.AddressType, s.Endpoints[0].Addresses[0] = discoveryv1.AddressTypeFQDN, "www"
			},
			Want: []string{`endpoints[0].addresses[0]: Invalid value: "www": should be a domain with at least two segments separated by dots`},
		},
		slice{
			Name: "names", Edit: endpoint(func(e *discoveryv1.Endpoint) { e.NodeName, e.Hostname = kindtest.Ptr(""), kindtest.Ptr("") }),
			Want: []string{
				`endpoints[0].nodeName: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
				`endpoints[0].hostname: Invalid value: "": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
			},
		},
		slice{
			Name: "hints twice", Edit: endpoint(func(e *discoveryv1.Endpoint) {
				e.Hints = &discoveryv1.EndpointHints{
					ForZones: []discoveryv1.ForZone{{Name: "a"}, {Name: "a"}},
					ForNodes: []discoveryv1.ForNode{{Name: "a"}, {Name: "a"}},
				}
			}),
			Want: []string{
				`endpoints[0].hints.forZones[1].name: Duplicate value: "a"`,
				`endpoints[0].hints.forNodes[1].name: Duplicate value: "a"`,
			},
		},
		slice{
			Name: "too many hints", Edit: endpoint(func(e *discoveryv1.Endpoint) {
				e.Hints = &discoveryv1.EndpointHints{ForZones: make([]discoveryv1.ForZone, 9), ForNodes: make([]discoveryv1.ForNode, 9)}
			}),
			Want: []string{
				"endpoints[0].hints.forZones: Too many: 9: must have at most 8 items",
				"endpoints[0].hints.forNodes: Too many: 9: must have at most 8 items",
			},
		},
		slice{
			Name: "too many ports", Edit: func(s *discoveryv1.EndpointSlice) { s.Ports = make([]discoveryv1.EndpointPort, maxPorts+1) },
			Want: []string{"ports: Too many: 20001: must have at most 20000 items"},
		},
		slice{
			Name: "port", Edit: port(func(p *discoveryv1.EndpointPort) {
				p.Name, p.Protocol, p.AppProtocol = kindtest.Ptr("a_b"), kindtest.Ptr(corev1.Protocol("X")), kindtest.Ptr("a/b/c")
			}),
			Want: []string{
				`ports[0].name: Invalid value: "a_b": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`,
				`ports[0].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP"`,
				`ports[0].appProtocol: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')`,
			},
		},
		slice{
			Name: "empty protocol", Edit: port(func(p *discoveryv1.EndpointPort) { p.Protocol = kindtest.Ptr(corev1.Protocol("")) }),
			Want: []string{`ports[0].protocol: Unsupported value: "": supported values: "SCTP", "TCP", "UDP"`},
		},
		slice{
			Name: "port names", Edit: func(s *discoveryv1.EndpointSlice) { s.Ports = append(s.Ports, s.Ports[0]) },
			Want: []string{`ports[1].name: Duplicate value: "http"`},
		},
	)
}

func TestEndpointSlice_Update(t *testing.T) {
	old := good()
	old.Endpoints[0].Addresses[0] = "010.1.2.3"
	old.Endpoints[0].DeprecatedTopology = map[string]string{corev1.LabelHostname: "n"}
	kindtest.Update(t, EndpointSlice(), old,
		slice{Name: "old spelling", Edit: func(s *discoveryv1.EndpointSlice) {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.1.2.4"}})
		}},
		slice{
			Name: "type", Edit: func(s *discoveryv1.EndpointSlice) { s.AddressType, s.Endpoints = discoveryv1.AddressTypeIPv6, nil },
			Want: []string{`addressType: Invalid value: "IPv6": field is immutable`},
		},
		slice{
			Name: "no endpoints", Edit: func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil },
		},
	)
}

// TestEndpointSlice_Topology: a node name in the deprecated field moves to nodeName when the endpoints change.
func TestEndpointSlice_Topology(t *testing.T) {
	old := good()
	old.Endpoints[0].DeprecatedTopology = map[string]string{corev1.LabelHostname: "n"}
	same := old.DeepCopy()
	kindtest.Change(EndpointSlice(), "", same, old)
	if diff := cmp.Diff(old, same); diff != "" {
		t.Errorf("unchanged endpoints (-want +got):\n%s", diff)
	}
	changed := old.DeepCopy()
	changed.Endpoints[0].Addresses[0] = "10.1.2.4"
	kindtest.Change(EndpointSlice(), "", changed, old)
	want := discoveryv1.Endpoint{Addresses: []string{"10.1.2.4"}, NodeName: kindtest.Ptr("n")}
	if diff := cmp.Diff(want, changed.Endpoints[0]); diff != "" {
		t.Errorf("changed endpoint (-want +got):\n%s", diff)
	}
}

func TestEndpointSlice_Warnings(t *testing.T) {
	s := good()
	if got := EndpointSlice().Warnings(s, nil); len(got) != 0 {
		t.Errorf("warnings: %q", got)
	}
	s.Endpoints[0].Addresses[0] = "010.1.2.3"
	if got := EndpointSlice().Warnings(s, nil); len(got) != 1 || !strings.HasPrefix(got[0], "endpoints[0].addresses[0]: ") {
		t.Errorf("warnings: %q", got)
	}
	s.AddressType = discoveryv1.AddressTypeFQDN
	if diff := cmp.Diff([]string{"addressType: FQDN endpoints are deprecated"}, EndpointSlice().Warnings(s, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEndpointSlice_Row(t *testing.T) {
	s := good()
	kindtest.Row(t, EndpointSlice(), s, time.Now(), "web-1", "IPv4", "80", "10.1.2.3", "<unknown>")
	s.Ports = []discoveryv1.EndpointPort{{}, {Name: kindtest.Ptr("a")}}
	s.Endpoints = nil
	for i := range 5 {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.0.0." + strconv.Itoa(i)}})
	}
	kindtest.Row(t, EndpointSlice(), s, time.Now(), "web-1", "IPv4", "*,a", "10.0.0.0,10.0.0.1,10.0.0.2 + 2 more...", "<unknown>")
	s.Ports, s.Endpoints = nil, nil
	kindtest.Row(t, EndpointSlice(), s, time.Now(), "web-1", "IPv4", "<unset>", "<unset>", "<unknown>")
}
