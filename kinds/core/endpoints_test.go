package core

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func subset(ips []string, notReady []string, ports ...corev1.EndpointPort) corev1.EndpointSubset {
	list := func(ips []string) (as []corev1.EndpointAddress) {
		for _, ip := range ips {
			as = append(as, corev1.EndpointAddress{IP: ip})
		}
		return as
	}
	return corev1.EndpointSubset{Addresses: list(ips), NotReadyAddresses: list(notReady), Ports: ports}
}

func port(name string, number int32) corev1.EndpointPort {
	return corev1.EndpointPort{Name: name, Port: number, Protocol: corev1.ProtocolTCP}
}

func TestEndpoints_Default(t *testing.T) {
	ep := &corev1.Endpoints{Subsets: []corev1.EndpointSubset{subset([]string{"10.0.0.1"}, nil, corev1.EndpointPort{Port: 80}, corev1.EndpointPort{Port: 81, Protocol: "UDP"})}}
	Endpoints().Default(ep)
	wantSame(t, "ports", []corev1.EndpointPort{{Port: 80, Protocol: "TCP"}, {Port: 81, Protocol: "UDP"}}, ep.Subsets[0].Ports)
}

func TestEndpoints_Validate(t *testing.T) {
	bad := corev1.EndpointSubset{
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1", Hostname: "A", NodeName: ptr("n_1")}, {IP: "x"}, {IP: "127.0.0.1"}, {IP: "169.254.0.1"}, {IP: "224.0.0.1"}, {IP: "0.0.0.0"}, {IP: "::"}},
		Ports:     []corev1.EndpointPort{{Port: 0, Protocol: "TCP"}, {Name: "A", Port: 1, Protocol: "ICMP", AppProtocol: ptr("a/b/c")}},
	}
	ep := &corev1.Endpoints{Subsets: []corev1.EndpointSubset{{}, bad}}
	const qualified = "a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
	const label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
	wantErrors(t, Endpoints().Validate(ep),
		"subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
		`subsets[1].addresses[0].hostname: Invalid value: "A": `+label,
		`subsets[1].addresses[0].nodeName: Invalid value: "n_1": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		`subsets[1].addresses[1].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
		`subsets[1].addresses[2].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`,
		`subsets[1].addresses[3].ip: Invalid value: "169.254.0.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)`,
		`subsets[1].addresses[4].ip: Invalid value: "224.0.0.1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)`,
		`subsets[1].addresses[5].ip: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)`,
		`subsets[1].addresses[6].ip: Invalid value: "::": may not be unspecified (::)`,
		"subsets[1].ports[0].name: Required value",
		"subsets[1].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
		`subsets[1].ports[1].name: Invalid value: "A": `+label,
		`subsets[1].ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`,
		`subsets[1].ports[1].appProtocol: Invalid value: "a/b/c": `+qualified,
	)
	trigger := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "now"}}}
	wantErrors(t, Endpoints().Validate(trigger), `annotations.endpoints.kubernetes.io/last-change-trigger-time: Invalid value: "now": parsing time "now" as "2006-01-02T15:04:05.999999999Z07:00": cannot parse "now" as "2006"`)
}

// TestEndpoints_OldSpelling: an address with leading zeros is refused when it is new, kept when it is stored.
func TestEndpoints_OldSpelling(t *testing.T) {
	ep := &corev1.Endpoints{Subsets: []corev1.EndpointSubset{subset(nil, []string{"10.0.0.01"}, port("", 80))}}
	wantErrors(t, Endpoints().Validate(ep), `subsets[0].notReadyAddresses[0].ip: Invalid value: "10.0.0.01": must not have leading 0s`)
	wantErrors(t, Endpoints().ValidateUpdate(ep, ep))
	wantSame(t, "warnings", []string{`subsets[0].notReadyAddresses[0].ip: non-standard IP address "10.0.0.01" is invalid: use "10.0.0.1"`}, Endpoints().Warnings(ep, ep))
}

func TestEndpoints_Repack(t *testing.T) {
	pod := func(ip, uid string) corev1.EndpointAddress {
		return corev1.EndpointAddress{IP: ip, TargetRef: &corev1.ObjectReference{UID: types.UID(uid)}}
	}
	for name, tc := range map[string]struct{ in, want []corev1.EndpointSubset }{
		"nothing": {},
		"one":     {in: []corev1.EndpointSubset{subset([]string{"1.1.1.1"}, nil, port("a", 1))}, want: []corev1.EndpointSubset{subset([]string{"1.1.1.1"}, nil, port("a", 1))}},
		"sorted": {
			in:   []corev1.EndpointSubset{subset([]string{"1.1.1.2", "1.1.1.1"}, nil, port("b", 2), port("a", 1))},
			want: []corev1.EndpointSubset{subset([]string{"1.1.1.1", "1.1.1.2"}, nil, port("a", 1), port("b", 2))},
		},
		"same ports": {
			in:   []corev1.EndpointSubset{subset([]string{"1.1.1.1"}, nil, port("a", 1)), subset([]string{"1.1.1.2"}, nil, port("a", 1))},
			want: []corev1.EndpointSubset{subset([]string{"1.1.1.1", "1.1.1.2"}, nil, port("a", 1))},
		},
		"same addresses": {
			in:   []corev1.EndpointSubset{subset([]string{"1.1.1.1"}, nil, port("a", 1)), subset([]string{"1.1.1.1"}, nil, port("b", 2))},
			want: []corev1.EndpointSubset{subset([]string{"1.1.1.1"}, nil, port("a", 1), port("b", 2))},
		},
		"ready wins": {
			in:   []corev1.EndpointSubset{subset([]string{"1.1.1.1"}, []string{"1.1.1.1", "1.1.1.2"}, port("a", 1))},
			want: []corev1.EndpointSubset{subset([]string{"1.1.1.1"}, []string{"1.1.1.2"}, port("a", 1))},
		},
		"ready for one port only": {
			in:   []corev1.EndpointSubset{subset([]string{"1.1.1.1"}, nil, port("a", 1)), subset(nil, []string{"1.1.1.1"}, port("b", 2))},
			want: []corev1.EndpointSubset{subset(nil, []string{"1.1.1.1"}, port("b", 2)), subset([]string{"1.1.1.1"}, nil, port("a", 1))},
		},
		"no ports": {
			in:   []corev1.EndpointSubset{subset([]string{"1.1.1.2"}, nil), subset([]string{"1.1.1.1"}, nil)},
			want: []corev1.EndpointSubset{subset([]string{"1.1.1.1", "1.1.1.2"}, nil)},
		},
		"empty one stays for validation": {in: []corev1.EndpointSubset{{}}, want: []corev1.EndpointSubset{{}}},
		"two pods, one address": {
			in:   []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{pod("1.1.1.1", "b"), pod("1.1.1.1", "a"), pod("1.1.1.1", "a")}, Ports: []corev1.EndpointPort{port("", 1)}}},
			want: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{pod("1.1.1.1", "a"), pod("1.1.1.1", "b")}, Ports: []corev1.EndpointPort{port("", 1)}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := repackSubsets(tc.in)
			wantSame(t, "subsets", tc.want, got)
			wantSame(t, "subsets repacked again", got, repackSubsets(got))
		})
	}
}

// Subsets in which every port has addresses of its own multiply them. That is refused before it fills the memory.
func TestEndpoints_RepackLarge(t *testing.T) {
	many := func(ports, addresses int) []corev1.EndpointSubset {
		all := corev1.EndpointSubset{}
		var subsets []corev1.EndpointSubset
		for i := range ports {
			p := port(fmt.Sprint("p", i), int32(i+1))
			all.Ports = append(all.Ports, p)
			subsets = append(subsets, subset([]string{fmt.Sprintf("10.1.%d.%d", i/256, i%256)}, nil, p))
		}
		for i := range addresses {
			all.Addresses = append(all.Addresses, corev1.EndpointAddress{IP: fmt.Sprintf("10.2.%d.%d", i/256, i%256)})
		}
		return append(subsets, all)
	}
	repacked := repackSubsets(many(100, 300))
	if len(repacked) != 100 || len(repacked[7].Addresses) != 301 || len(repacked[7].Ports) != 1 {
		t.Errorf("got %d subsets, want one for each of 100 ports", len(repacked))
	}
	wantSame(t, "repacked again", repacked, repackSubsets(repacked))

	ep := &corev1.Endpoints{Subsets: many(10_000, 10_000)}
	Endpoints().PrepareCreate(ep)
	if len(ep.Subsets) != 10_001 {
		t.Errorf("got %d subsets", len(ep.Subsets))
	}
	wantErrors(t, Endpoints().Validate(ep), "subsets: Too many: 100010000: must have at most 200000 items")
	// The same ports in one subset are one group.
	ep.Subsets = ep.Subsets[10_000:]
	Endpoints().PrepareCreate(ep)
	wantErrors(t, Endpoints().Validate(ep))
}

func TestEndpoints_Row(t *testing.T) {
	for want, subsets := range map[string][]corev1.EndpointSubset{
		"<none>":                  nil,
		"":                        {subset(nil, []string{"1.1.1.1"}, port("", 80))},
		"1.1.1.1":                 {subset([]string{"1.1.1.1"}, nil)},
		"1.1.1.1:80,[fd00::1]:80": {subset([]string{"1.1.1.1", "fd00::1"}, nil, port("", 80))},
		"1.1.1.1:80,1.1.1.2:80,1.1.1.1:81 + 2 more...": {subset([]string{"1.1.1.1", "1.1.1.2"}, nil, port("", 80), port("", 81)), subset([]string{"1.1.1.3"}, nil)},
	} {
		ep := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Subsets: subsets}
		wantSame(t, "row", []any{"e", want, "<unknown>"}, Endpoints().Row(ep, time.Now()))
	}
}
