package serviceip

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/core"
	"vigil/object"
	"vigil/store"
	"vigil/store/storetest"
)

// cluster is an allocator and the services written with it, as the write path does it.
type cluster struct {
	t *testing.T
	*Allocator
	events []string
}

func newCluster(t *testing.T, s *store.Store, ranges ...string) *cluster {
	t.Helper()
	c := &cluster{t: t}
	cfg := Config{Store: s, NodePorts: PortRange{30000, 30099}, Event: func(svc *corev1.Service, reason, note string) {
		c.events = append(c.events, svc.Name+" "+reason)
	}}
	for _, r := range ranges {
		cfg.ServiceRanges = append(cfg.ServiceRanges, netip.MustParsePrefix(r))
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.Allocator = a
	return c
}

// create defaults, prepares and stores a service; the error is Prepare's.
func (c *cluster) create(svc *corev1.Service) (*corev1.Service, error) {
	c.t.Helper()
	row := core.Service()
	row.Default(svc)
	row.PrepareCreate(svc)
	commit, _, err := c.Prepare(c.t.Context(), svc, nil)
	if err != nil {
		return nil, err
	}
	c.put(svc)
	commit()
	return svc, nil
}

func (c *cluster) mustCreate(svc *corev1.Service) *corev1.Service {
	c.t.Helper()
	got, err := c.create(svc)
	if err != nil {
		c.t.Fatal(err)
	}
	return got
}

// put stores a service behind the allocator's back.
func (c *cluster) put(svc *corev1.Service) {
	c.t.Helper()
	value, err := object.EncodeStored(core.Service().Type, svc)
	if err != nil {
		c.t.Fatal(err)
	}
	rev, err := c.store.Update(c.t.Context(), serviceKey(svc), value, revisionOf(svc), 0)
	if err != nil {
		c.t.Fatal(err)
	}
	svc.ResourceVersion = itoa(rev)
}

// update changes a stored service.
func (c *cluster) update(old *corev1.Service, change func(*corev1.ServiceSpec)) (*corev1.Service, error) {
	c.t.Helper()
	row := core.Service()
	svc := old.DeepCopy()
	change(&svc.Spec)
	row.Default(svc)
	row.PrepareUpdate(svc, old)
	commit, _, err := c.Prepare(c.t.Context(), svc, old)
	if err != nil {
		return nil, err
	}
	c.put(svc)
	commit()
	return svc, nil
}

func (c *cluster) mustUpdate(old *corev1.Service, change func(*corev1.ServiceSpec)) *corev1.Service {
	c.t.Helper()
	svc, err := c.update(old, change)
	if err != nil {
		c.t.Fatal(err)
	}
	return svc
}

func (c *cluster) delete(svc *corev1.Service) {
	c.t.Helper()
	if _, err := c.store.Delete(c.t.Context(), serviceKey(svc), revisionOf(svc)); err != nil {
		c.t.Fatal(err)
	}
	c.Released(c.t.Context(), svc)
}

// takenAddresses are the IPAddress objects with whom they are for.
func (c *cluster) takenAddresses() map[string]string {
	c.t.Helper()
	list, err := c.store.List(c.t.Context(), c.ips.prefix(), store.ListOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	taken := map[string]string{}
	for _, kv := range list.KVs {
		a, err := c.ips.decode(kv)
		if err != nil {
			c.t.Fatal(err)
		}
		taken[a.Name] = refOf(a.Spec.ParentRef)
	}
	return taken
}

func (c *cluster) takenPorts() []int32 {
	c.t.Helper()
	bits, _, err := c.ports.read(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return c.ports.portsOf(bits)
}

func serviceKey(svc *corev1.Service) string {
	return "/registry/services/specs/" + svc.Namespace + "/" + svc.Name
}

func service(name string, change ...func(*corev1.ServiceSpec)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	for _, f := range change {
		f(&svc.Spec)
	}
	return svc
}

func ofType(t corev1.ServiceType) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) { s.Type = t }
}

func withIP(ips ...string) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = ips[0], ips }
}

func withPolicy(p corev1.IPFamilyPolicy, families ...corev1.IPFamily) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) { s.IPFamilyPolicy, s.IPFamilies = &p, families }
}

func withPorts(ports ...corev1.ServicePort) func(*corev1.ServiceSpec) {
	return func(s *corev1.ServiceSpec) { s.Ports = ports }
}

const (
	v4     = "10.96.0.0/24"
	v6     = "fd00:10:96::/112"
	single = corev1.IPFamilyPolicySingleStack
	prefer = corev1.IPFamilyPolicyPreferDualStack
	demand = corev1.IPFamilyPolicyRequireDualStack
	four   = corev1.IPv4Protocol
	six    = corev1.IPv6Protocol
)

func TestPrepare_ClusterIP(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	svc := c.mustCreate(service("web"))

	ip := netip.MustParseAddr(svc.Spec.ClusterIP)
	if lower := netip.MustParseAddr("10.96.0.16"); !netip.MustParsePrefix(v4).Contains(ip) || !lower.Less(ip) {
		t.Errorf("cluster IP %s is not of the upper part of %s", ip, v4)
	}
	want := svc.Spec.DeepCopy()
	want.ClusterIPs = []string{ip.String()}
	policy := single
	want.IPFamilyPolicy, want.IPFamilies = &policy, []corev1.IPFamily{four}
	if diff := cmp.Diff(want, &svc.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}

	stored, err := c.ips.get(t.Context(), ip)
	if err != nil || stored == nil {
		t.Fatalf("IPAddress %s: %v, %v", ip, stored, err)
	}
	if stored.UID == "" || stored.CreationTimestamp.IsZero() {
		t.Errorf("IPAddress without uid or creation time: %+v", stored.ObjectMeta)
	}
	wantRef := &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "web"}
	if diff := cmp.Diff(wantRef, stored.Spec.ParentRef); diff != "" {
		t.Errorf("parentRef (-want +got):\n%s", diff)
	}
	wantLabels := map[string]string{"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": "IPv4"}
	if diff := cmp.Diff(wantLabels, stored.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}

	c.delete(svc)
	if taken := c.takenAddresses(); len(taken) != 0 {
		t.Errorf("taken after deletion: %v", taken)
	}
}

// TestPrepare_Families is what a new service gets in a cluster with the given ranges, or the error.
func TestPrepare_Families(t *testing.T) {
	dual := []string{v4, v6}
	headless := withIP("None")
	noSelector := func(s *corev1.ServiceSpec) { s.Selector = nil }
	for name, tc := range map[string]struct {
		ranges   []string
		change   []func(*corev1.ServiceSpec)
		policy   corev1.IPFamilyPolicy // "": none
		families []corev1.IPFamily
		ips      int // how many addresses are taken
		err      string
	}{
		"single-stack cluster":                {ranges: []string{v4}, policy: single, families: []corev1.IPFamily{four}, ips: 1},
		"IPv6 cluster":                        {ranges: []string{v6}, policy: single, families: []corev1.IPFamily{six}, ips: 1},
		"dual-stack cluster, default":         {ranges: dual, policy: single, families: []corev1.IPFamily{four}, ips: 1},
		"dual-stack cluster, IPv6 first":      {ranges: []string{v6, v4}, policy: single, families: []corev1.IPFamily{six}, ips: 1},
		"family asked for":                    {ranges: dual, change: []func(*corev1.ServiceSpec){withPolicy(single, six)}, policy: single, families: []corev1.IPFamily{six}, ips: 1},
		"PreferDualStack on single":           {ranges: []string{v4}, change: []func(*corev1.ServiceSpec){withPolicy(prefer)}, policy: prefer, families: []corev1.IPFamily{four}, ips: 1},
		"PreferDualStack on dual":             {ranges: dual, change: []func(*corev1.ServiceSpec){withPolicy(prefer)}, policy: prefer, families: []corev1.IPFamily{four, six}, ips: 2},
		"RequireDualStack, IPv6 first":        {ranges: dual, change: []func(*corev1.ServiceSpec){withPolicy(demand, six)}, policy: demand, families: []corev1.IPFamily{six, four}, ips: 2},
		"RequireDualStack on single":          {ranges: []string{v4}, change: []func(*corev1.ServiceSpec){withPolicy(demand)}, err: `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services`},
		"family not configured":               {ranges: []string{v4}, change: []func(*corev1.ServiceSpec){withPolicy(single, six)}, err: `spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`},
		"address of family not configured":    {ranges: []string{v4}, change: []func(*corev1.ServiceSpec){withIP("fd00::1")}, err: `spec.clusterIPs[0]: Invalid value: ["fd00::1"]: IPv6 is not configured on this cluster`},
		"two families, SingleStack":           {ranges: dual, change: []func(*corev1.ServiceSpec){withPolicy(single, four, six)}, err: `spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified`},
		"two addresses, SingleStack":          {ranges: dual, change: []func(*corev1.ServiceSpec){withIP("10.96.0.5", "fd00:10:96::5")}, err: `spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified`},
		"families from addresses":             {ranges: dual, change: []func(*corev1.ServiceSpec){withIP("fd00:10:96::5", "10.96.0.5"), withPolicy(demand)}, policy: demand, families: []corev1.IPFamily{six, four}, ips: 2},
		"headless":                            {ranges: dual, change: []func(*corev1.ServiceSpec){headless}, policy: single, families: []corev1.IPFamily{four}},
		"headless without selector, single":   {ranges: []string{v4}, change: []func(*corev1.ServiceSpec){headless, noSelector}, policy: demand, families: []corev1.IPFamily{four, six}},
		"headless without selector, IPv6":     {ranges: []string{v6}, change: []func(*corev1.ServiceSpec){headless, noSelector}, policy: demand, families: []corev1.IPFamily{six, four}},
		"headless without selector, policy":   {ranges: []string{v4}, change: []func(*corev1.ServiceSpec){headless, noSelector, withPolicy(single)}, policy: single, families: []corev1.IPFamily{four}},
		"ExternalName":                        {ranges: dual, change: []func(*corev1.ServiceSpec){ofType(corev1.ServiceTypeExternalName)}},
		"address lower part":                  {ranges: []string{v4}, change: []func(*corev1.ServiceSpec){withIP("10.96.0.1")}, policy: single, families: []corev1.IPFamily{four}, ips: 1},
		"address out of range":                {ranges: []string{v4}, change: []func(*corev1.ServiceSpec){withIP("10.97.0.1")}, err: `spec.clusterIPs: Invalid value: ["10.97.0.1"]: failed to allocate IP 10.97.0.1: the provided IP (10.97.0.1) is not in the valid range. The range of valid IPs is 10.96.0.0/24`},
		"network address":                     {ranges: []string{v4}, change: []func(*corev1.ServiceSpec){withIP("10.96.0.0")}, err: "is not in the valid range"},
		"broadcast address":                   {ranges: []string{v4}, change: []func(*corev1.ServiceSpec){withIP("10.96.0.255")}, err: "is not in the valid range"},
		"second address out of range":         {ranges: dual, change: []func(*corev1.ServiceSpec){withIP("10.96.0.5", "fd01::1"), withPolicy(demand)}, err: "failed to allocate IP fd01::1: the provided IP"},
		"clusterIP and clusterIPs do not fit": {ranges: []string{v4}, change: []func(*corev1.ServiceSpec){func(s *corev1.ServiceSpec) { s.ClusterIP, s.ClusterIPs = "10.96.0.1", []string{"10.96.0.2"} }}, err: "first value must match `clusterIP`"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, storetest.New(t), tc.ranges...)
			svc, err := c.create(service("web", tc.change...))
			if tc.err != "" {
				if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error = %v, want Invalid with %q", err, tc.err)
				}
				if taken := c.takenAddresses(); len(taken) != 0 {
					t.Errorf("taken after the failure: %v", taken)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			policy := corev1.IPFamilyPolicy("")
			if svc.Spec.IPFamilyPolicy != nil {
				policy = *svc.Spec.IPFamilyPolicy
			}
			if policy != tc.policy || !slices.Equal(svc.Spec.IPFamilies, tc.families) {
				t.Errorf("policy %q, families %v, want %q, %v", policy, svc.Spec.IPFamilies, tc.policy, tc.families)
			}
			taken := c.takenAddresses()
			if len(taken) != tc.ips {
				t.Errorf("taken: %v, want %d", taken, tc.ips)
			}
			for i := range tc.ips {
				ip := netip.MustParseAddr(svc.Spec.ClusterIPs[i])
				if familyOf(ip) != tc.families[i] || taken[ip.String()] != "ns/web" {
					t.Errorf("clusterIPs %v do not match families %v and taken %v", svc.Spec.ClusterIPs, tc.families, taken)
				}
			}
			if tc.ips > 0 && svc.Spec.ClusterIP != svc.Spec.ClusterIPs[0] {
				t.Errorf("clusterIP %s, clusterIPs %v", svc.Spec.ClusterIP, svc.Spec.ClusterIPs)
			}
		})
	}
}

func TestPrepare_AddressTaken(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	c.mustCreate(service("first", withIP("10.96.0.7")))
	_, err := c.create(service("second", withIP("10.96.0.7")))
	const want = `Service "second" is invalid: spec.clusterIPs: Invalid value: ["10.96.0.7"]: failed to allocate IP 10.96.0.7: provided IP is already allocated`
	if err == nil || err.Error() != want {
		t.Errorf("error = %v\n want %s", err, want)
	}
	if diff := cmp.Diff(map[string]string{"10.96.0.7": "ns/first"}, c.takenAddresses()); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
}

func TestPrepare_RangeFull(t *testing.T) {
	c := newCluster(t, storetest.New(t), "10.96.0.0/27") // 30 addresses, 16 in the lower part
	seen := map[string]bool{}
	for i := range 30 {
		ip := c.mustCreate(service("s" + itoa(int64(i)))).Spec.ClusterIP
		if seen[ip] {
			t.Fatalf("%s given twice", ip)
		}
		seen[ip] = true
		upper := netip.MustParseAddr("10.96.0.16").Less(netip.MustParseAddr(ip))
		if upper != (i < 14) {
			t.Errorf("address %d is %s: the upper part comes first", i, ip)
		}
	}
	_, err := c.create(service("more"))
	if want := "Internal error occurred: failed to allocate a serviceIP: range is full"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func TestPrepare_Rollback(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4, v6)
	svc := service("web", ofType(corev1.ServiceTypeNodePort), withPolicy(demand))
	core.Service().Default(svc)
	_, rollback, err := c.Prepare(t.Context(), svc, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.takenAddresses()) != 2 || len(c.takenPorts()) != 1 {
		t.Fatalf("taken: %v %v", c.takenAddresses(), c.takenPorts())
	}
	rollback()
	if len(c.takenAddresses()) != 0 || len(c.takenPorts()) != 0 {
		t.Errorf("taken after rollback: %v %v", c.takenAddresses(), c.takenPorts())
	}
}

func TestPrepare_ChangeOfType(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	svc := c.mustCreate(service("web"))
	ip := svc.Spec.ClusterIP

	svc = c.mustUpdate(svc, ofType(corev1.ServiceTypeNodePort))
	port := svc.Spec.Ports[0].NodePort
	if got := c.takenPorts(); svc.Spec.ClusterIP != ip || !slices.Equal(got, []int32{port}) {
		t.Fatalf("as NodePort: IP %s (was %s), port %d, taken %v", svc.Spec.ClusterIP, ip, port, got)
	}

	// A change that fails later must not lose anything.
	next := svc.DeepCopy()
	next.Spec.Type, next.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
	core.Service().PrepareUpdate(next, svc)
	_, rollback, err := c.Prepare(t.Context(), next, svc)
	if err != nil {
		t.Fatal(err)
	}
	rollback()
	if len(c.takenPorts()) != 1 || len(c.takenAddresses()) != 1 {
		t.Fatalf("taken after a change was rolled back: %v %v", c.takenAddresses(), c.takenPorts())
	}

	svc = c.mustUpdate(svc, ofType(corev1.ServiceTypeClusterIP))
	if svc.Spec.Ports[0].NodePort != 0 || len(c.takenPorts()) != 0 || svc.Spec.ClusterIP != ip {
		t.Fatalf("as ClusterIP again: %+v, taken ports %v", svc.Spec, c.takenPorts())
	}
	svc = c.mustUpdate(svc, func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "example.com" })
	if svc.Spec.ClusterIP != "" || svc.Spec.IPFamilyPolicy != nil || len(c.takenAddresses()) != 0 {
		t.Fatalf("as ExternalName: %+v, taken %v", svc.Spec, c.takenAddresses())
	}
	svc = c.mustUpdate(svc, func(s *corev1.ServiceSpec) { s.Type, s.ExternalName = corev1.ServiceTypeLoadBalancer, "" })
	if svc.Spec.ClusterIP == "" || svc.Spec.Ports[0].NodePort == 0 || len(c.takenAddresses()) != 1 {
		t.Fatalf("as LoadBalancer: %+v, taken %v", svc.Spec, c.takenAddresses())
	}
	c.delete(svc)
	if len(c.takenPorts()) != 0 || len(c.takenAddresses()) != 0 {
		t.Errorf("taken at the end: %v %v", c.takenAddresses(), c.takenPorts())
	}
}

func TestPrepare_SecondFamily(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4, v6)
	svc := c.mustCreate(service("web"))
	first := svc.Spec.ClusterIP

	svc = c.mustUpdate(svc, withPolicy(demand, four))
	if len(svc.Spec.ClusterIPs) != 2 || svc.Spec.ClusterIPs[0] != first || len(c.takenAddresses()) != 2 {
		t.Fatalf("upgraded: %v, taken %v", svc.Spec.ClusterIPs, c.takenAddresses())
	}
	_, err := c.update(svc, func(s *corev1.ServiceSpec) { s.ClusterIPs = s.ClusterIPs[:1] })
	if want := "must be 'SingleStack' to release the secondary cluster IP"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want %s", err, want)
	}
	svc = c.mustUpdate(svc, func(s *corev1.ServiceSpec) { p := single; s.IPFamilyPolicy = &p })
	if !slices.Equal(svc.Spec.ClusterIPs, []string{first}) || !slices.Equal(svc.Spec.IPFamilies, []corev1.IPFamily{four}) {
		t.Errorf("downgraded: %v %v", svc.Spec.ClusterIPs, svc.Spec.IPFamilies)
	}
	if diff := cmp.Diff(map[string]string{first: "ns/web"}, c.takenAddresses()); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
}

// TestPrepare_PreferDualStackStays: a cluster that became dual-stack does not change services that nobody touches.
func TestPrepare_PreferDualStackStays(t *testing.T) {
	s := storetest.New(t)
	svc := newCluster(t, s, v4).mustCreate(service("web", withPolicy(prefer)))
	later := newCluster(t, s, v4, v6)
	svc = later.mustUpdate(svc, func(s *corev1.ServiceSpec) { s.SessionAffinity = corev1.ServiceAffinityClientIP })
	if len(svc.Spec.ClusterIPs) != 1 || len(svc.Spec.IPFamilies) != 1 {
		t.Errorf("clusterIPs %v, ipFamilies %v", svc.Spec.ClusterIPs, svc.Spec.IPFamilies)
	}
}

func TestPrepare_NodePorts(t *testing.T) {
	udp := func(port, node int32) corev1.ServicePort {
		return corev1.ServicePort{Name: "u" + itoa(int64(port)), Port: port, NodePort: node, Protocol: corev1.ProtocolUDP}
	}
	tcp := func(port, node int32) corev1.ServicePort {
		return corev1.ServicePort{Name: "t" + itoa(int64(port)), Port: port, NodePort: node}
	}
	no := false
	balancer := func(allocate *bool, local bool) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) {
			s.Type, s.AllocateLoadBalancerNodePorts = corev1.ServiceTypeLoadBalancer, allocate
			if local {
				s.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
			}
		}
	}
	for name, tc := range map[string]struct {
		change []func(*corev1.ServiceSpec)
		taken  int
		check  func(*corev1.ServiceSpec) bool
		err    string
	}{
		"chosen":    {change: []func(*corev1.ServiceSpec){ofType(corev1.ServiceTypeNodePort)}, taken: 1, check: func(s *corev1.ServiceSpec) bool { return s.Ports[0].NodePort >= 30016 }},
		"asked for": {change: []func(*corev1.ServiceSpec){ofType(corev1.ServiceTypeNodePort), withPorts(tcp(80, 30001))}, taken: 1, check: func(s *corev1.ServiceSpec) bool { return s.Ports[0].NodePort == 30001 }},
		"two protocols share": {change: []func(*corev1.ServiceSpec){ofType(corev1.ServiceTypeNodePort), withPorts(tcp(53, 0), udp(53, 0))}, taken: 1,
			check: func(s *corev1.ServiceSpec) bool {
				return s.Ports[0].NodePort == s.Ports[1].NodePort && s.Ports[0].NodePort != 0
			}},
		"two protocols share the asked": {change: []func(*corev1.ServiceSpec){ofType(corev1.ServiceTypeNodePort), withPorts(tcp(53, 0), udp(53, 30053))}, taken: 1,
			check: func(s *corev1.ServiceSpec) bool { return s.Ports[0].NodePort == 30053 }},
		"two protocols, two asked": {change: []func(*corev1.ServiceSpec){ofType(corev1.ServiceTypeNodePort), withPorts(tcp(53, 30052), udp(53, 30053))}, taken: 2},
		"out of range":             {change: []func(*corev1.ServiceSpec){ofType(corev1.ServiceTypeNodePort), withPorts(tcp(80, 0), tcp(81, 80))}, err: `spec.ports[1].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-30099`},
		"taken":                    {change: []func(*corev1.ServiceSpec){ofType(corev1.ServiceTypeNodePort), withPorts(tcp(80, 30099))}, err: `spec.ports[0].nodePort: Invalid value: 30099: provided port is already allocated`},
		"one for two ports":        {change: []func(*corev1.ServiceSpec){ofType(corev1.ServiceTypeNodePort), withPorts(tcp(80, 30001), tcp(81, 30001))}, err: `spec.ports[1].nodePort: Invalid value: 30001: provided port is already allocated`},
		"load balancer":            {change: []func(*corev1.ServiceSpec){balancer(nil, false)}, taken: 1},
		"load balancer without":    {change: []func(*corev1.ServiceSpec){balancer(&no, false)}, check: func(s *corev1.ServiceSpec) bool { return s.Ports[0].NodePort == 0 }},
		"load balancer without, one asked": {change: []func(*corev1.ServiceSpec){balancer(&no, false), withPorts(tcp(80, 0), tcp(81, 30001))}, taken: 1,
			check: func(s *corev1.ServiceSpec) bool { return s.Ports[0].NodePort == 0 && s.Ports[1].NodePort == 30001 }},
		"health check":       {change: []func(*corev1.ServiceSpec){balancer(nil, true)}, taken: 2, check: func(s *corev1.ServiceSpec) bool { return s.HealthCheckNodePort != 0 }},
		"health check asked": {change: []func(*corev1.ServiceSpec){balancer(nil, true), func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 30002 }}, taken: 2, check: func(s *corev1.ServiceSpec) bool { return s.HealthCheckNodePort == 30002 }},
		"health check taken": {change: []func(*corev1.ServiceSpec){balancer(nil, true), func(s *corev1.ServiceSpec) { s.HealthCheckNodePort = 30099 }}, err: "failed to allocate requested HealthCheck NodePort 30099: provided port is already allocated"},
		"ClusterIP":          {check: func(s *corev1.ServiceSpec) bool { return s.Ports[0].NodePort == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, storetest.New(t), v4)
			c.mustCreate(service("other", ofType(corev1.ServiceTypeNodePort), withPorts(tcp(80, 30099))))
			svc, err := c.create(service("web", tc.change...))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error = %v, want %s", err, tc.err)
				}
				tc.taken = 0
			} else if err != nil {
				t.Fatal(err)
			} else if tc.check != nil && !tc.check(&svc.Spec) {
				t.Errorf("spec: %+v", svc.Spec)
			}
			if got := c.takenPorts(); len(got) != 1+tc.taken {
				t.Errorf("taken ports %v, want 30099 and %d more", got, tc.taken)
			}
			if tc.err != "" && len(c.takenAddresses()) != 1 {
				t.Errorf("taken addresses after the failure: %v", c.takenAddresses())
			}
			if svc != nil {
				c.delete(svc)
				if got := c.takenPorts(); !slices.Equal(got, []int32{30099}) {
					t.Errorf("taken ports after deletion: %v", got)
				}
			}
		})
	}
}

func TestPrepare_ChangedPorts(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	svc := c.mustCreate(service("web", ofType(corev1.ServiceTypeNodePort), withPorts(corev1.ServicePort{Name: "a", Port: 1}, corev1.ServicePort{Name: "b", Port: 2})))
	a, b := svc.Spec.Ports[0].NodePort, svc.Spec.Ports[1].NodePort

	// A client that sends no node ports keeps them, by the names of the ports.
	svc = c.mustUpdate(svc, withPorts(corev1.ServicePort{Name: "b", Port: 2}, corev1.ServicePort{Name: "a", Port: 1}))
	if svc.Spec.Ports[0].NodePort != b || svc.Spec.Ports[1].NodePort != a {
		t.Fatalf("ports %+v, want %d and %d", svc.Spec.Ports, b, a)
	}
	svc = c.mustUpdate(svc, withPorts(corev1.ServicePort{Name: "b", Port: 2}, corev1.ServicePort{Name: "c", Port: 3, NodePort: 30003}))
	if got := c.takenPorts(); !slices.Equal(got, []int32{30003, b}) {
		t.Errorf("taken %v, want 30003 and %d", got, b)
	}
	if _, err := c.update(svc, withPorts(corev1.ServicePort{Port: 2, NodePort: 1})); !apierrors.IsInvalid(err) {
		t.Errorf("port out of range: %v", err)
	}
	if got := c.takenPorts(); !slices.Equal(got, []int32{30003, b}) {
		t.Errorf("taken after a failure %v", got)
	}
	if got := c.ports.portsOf(mustBits(t, c)); !slices.Equal(got, []int32{30003, b}) {
		t.Errorf("bitmap %v", got)
	}
}

func TestNew_Refuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"two ranges of a family": {ServiceRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16"), netip.MustParsePrefix("10.1.0.0/16")}},
		"no address":             {ServiceRanges: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/31")}},
		"IPv6 too large":         {ServiceRanges: []netip.Prefix{netip.MustParsePrefix("fd00::/56")}},
		"ports upside down":      {NodePorts: PortRange{31000, 30000}},
		"no port":                {NodePorts: PortRange{0, 100}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := New(cfg); err == nil {
				t.Error("accepted")
			}
		})
	}
}

// TestReleased_TakenAgain: an address that was freed and taken by a new service of the same name stays taken.
func TestReleased_TakenAgain(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	first := c.mustCreate(service("web", withIP("10.96.0.9")))
	c.delete(first)
	c.mustCreate(service("web", withIP("10.96.0.9")))
	c.Released(t.Context(), first) // late
	if diff := cmp.Diff(map[string]string{"10.96.0.9": "ns/web"}, c.takenAddresses()); diff != "" {
		t.Errorf("taken (-want +got):\n%s", diff)
	}
}

func TestPrepare_StatusErrors(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	_, err := c.create(service("web", withIP("not-an-ip")))
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != 422 || status.Status().Details.Causes[0].Field != "spec.clusterIPs[0]" {
		t.Errorf("error = %#v", err)
	}
}
