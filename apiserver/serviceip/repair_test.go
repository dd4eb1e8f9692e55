package serviceip

import (
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"vigil/kinds/core"
	"vigil/object"
	"vigil/store/storetest"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func mustBits(t *testing.T, c *cluster) *big.Int {
	t.Helper()
	bits, _, err := c.ports.read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return bits
}

func (c *cluster) repair() {
	c.t.Helper()
	c.events = nil
	if err := c.Repair(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
}

// crash takes what a service needs and dies before the service is written.
func (c *cluster) crash(svc *corev1.Service) *corev1.Service {
	c.t.Helper()
	core.Service().Default(svc)
	if _, _, err := c.Prepare(c.t.Context(), svc, nil); err != nil {
		c.t.Fatal(err)
	}
	return svc
}

func TestRepair_CrashBeforeWrite(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	kept := c.mustCreate(service("kept", ofType(corev1.ServiceTypeNodePort)))
	lost := c.crash(service("lost", ofType(corev1.ServiceTypeNodePort)))

	both := map[string]string{kept.Spec.ClusterIP: "ns/kept", lost.Spec.ClusterIP: "ns/lost"}
	c.repair()
	c.repair()
	if diff := cmp.Diff(both, c.takenAddresses()); diff != "" {
		t.Errorf("addresses before the grace period is over (-want +got):\n%s", diff)
	}
	if got := c.takenPorts(); len(got) != 2 {
		t.Errorf("ports after two rounds: %v", got)
	}

	now := time.Now()
	c.now = func() time.Time { return now.Add(grace + time.Minute) }
	c.repair()
	delete(both, lost.Spec.ClusterIP)
	if diff := cmp.Diff(both, c.takenAddresses()); diff != "" {
		t.Errorf("addresses at last (-want +got):\n%s", diff)
	}
	if got := c.takenPorts(); !slices.Equal(got, []int32{kept.Spec.Ports[0].NodePort}) {
		t.Errorf("ports after three rounds: %v", got)
	}
}

// TestRepair_CrashBeforeRelease: the service is deleted or changed, but what it had is still taken.
func TestRepair_CrashBeforeRelease(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	svc := c.mustCreate(service("web", ofType(corev1.ServiceTypeNodePort)))
	external := svc.DeepCopy()
	external.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}
	c.put(external)
	now := time.Now()
	c.now = func() time.Time { return now.Add(grace + time.Minute) }
	for range leakRounds {
		c.repair()
	}
	if len(c.takenAddresses()) != 0 || len(c.takenPorts()) != 0 {
		t.Errorf("taken: %v %v", c.takenAddresses(), c.takenPorts())
	}
}

// TestRepair_LateWrite: a port that was leaked for two rounds and then got its service is counted anew.
func TestRepair_LateWrite(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	svc := c.crash(service("late", ofType(corev1.ServiceTypeNodePort)))
	c.repair()
	c.repair()
	c.put(svc)
	c.repair()
	c.repair()
	if got := c.takenPorts(); len(got) != 1 {
		t.Errorf("ports: %v", got)
	}
	if len(c.events) != 0 {
		t.Errorf("events: %v", c.events)
	}
}

func TestRepair_Missing(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	svc := service("web", ofType(corev1.ServiceTypeLoadBalancer), withIP("10.96.0.9"), withPorts(corev1.ServicePort{Port: 80, NodePort: 30005}))
	svc.Spec.ExternalTrafficPolicy, svc.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, 30006
	c.put(svc)
	c.repair()
	if diff := cmp.Diff([]string{"web ClusterIPNotAllocated", "web PortNotAllocated", "web PortNotAllocated"}, c.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"10.96.0.9": "ns/web"}, c.takenAddresses()); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if got := c.takenPorts(); !slices.Equal(got, []int32{30005, 30006}) {
		t.Errorf("ports: %v", got)
	}
	if c.repair(); len(c.events) != 0 {
		t.Errorf("events of a second repair: %v", c.events)
	}
}

func TestRepair_Duplicates(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	first := c.mustCreate(service("second", ofType(corev1.ServiceTypeNodePort)))
	clash := service("a-clash", withIP(first.Spec.ClusterIP), ofType(corev1.ServiceTypeNodePort), withPorts(first.Spec.Ports...))
	c.put(clash)
	c.repair()
	want := []string{"a-clash ClusterIPAlreadyAllocated", "second PortAlreadyAllocated"}
	if diff := cmp.Diff(want, c.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{first.Spec.ClusterIP: "ns/second"}, c.takenAddresses()); diff != "" {
		t.Errorf("the owner must stay (-want +got):\n%s", diff)
	}
}

func TestRepair_OutOfRange(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	c.put(service("web", withIP("192.168.0.1"), ofType(corev1.ServiceTypeNodePort), withPorts(corev1.ServicePort{Port: 80, NodePort: 8080})))
	c.repair()
	if diff := cmp.Diff([]string{"web ClusterIPOutOfRange", "web PortOutOfRange"}, c.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(c.takenAddresses()) != 0 || len(c.takenPorts()) != 0 {
		t.Errorf("taken: %v %v", c.takenAddresses(), c.takenPorts())
	}
}

func TestRepair_WrongReference(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	ip := netip.MustParseAddr("10.96.0.9")
	if _, err := c.ips.take(t.Context(), ip, service("gone")); err != nil {
		t.Fatal(err)
	}
	c.put(service("web", withIP("10.96.0.9")))
	c.repair()
	if diff := cmp.Diff(map[string]string{"10.96.0.9": "ns/web"}, c.takenAddresses()); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"web ClusterIPNotAllocated"}, c.events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestBitmap_Format: the stored form is upstream's, byte for byte: bit i of a big-endian number is port first+i.
func TestBitmap_Format(t *testing.T) {
	c := newCluster(t, storetest.New(t), v4)
	for _, port := range []int32{30000, 30009, 30016} {
		c.mustCreate(service("s"+itoa(int64(port)), ofType(corev1.ServiceTypeNodePort), withPorts(corev1.ServicePort{Port: 80, NodePort: port})))
	}
	kv, err := c.store.Get(t.Context(), "/registry/ranges/servicenodeports")
	if err != nil {
		t.Fatal(err)
	}
	want, err := object.EncodeStored(rangeAllocationType, &corev1.RangeAllocation{Range: "30000-30099", Data: []byte{0x01, 0x02, 0x01}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, kv.Value); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// TestBitmap_OtherRange: a server with another range moves the bits to where they belong there.
func TestBitmap_OtherRange(t *testing.T) {
	s := storetest.New(t)
	c := newCluster(t, s, v4)
	for _, port := range []int32{30001, 30090} {
		c.mustCreate(service("s"+itoa(int64(port)), ofType(corev1.ServiceTypeNodePort), withPorts(corev1.ServicePort{Port: 80, NodePort: port})))
	}
	other, err := New(Config{Store: s, NodePorts: PortRange{30050, 31000}})
	if err != nil {
		t.Fatal(err)
	}
	later := &cluster{t: t, Allocator: other}
	later.mustCreate(service("new", ofType(corev1.ServiceTypeNodePort), withPorts(corev1.ServicePort{Port: 80, NodePort: 30051})))
	if got := later.takenPorts(); !slices.Equal(got, []int32{30051, 30090}) {
		t.Errorf("taken: %v", got)
	}
}
