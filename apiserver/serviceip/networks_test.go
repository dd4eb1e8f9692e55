package serviceip

import (
	"net/netip"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/networking"
	"vigil/object"
	"vigil/store/storetest"
)

// putCIDR stores a ServiceCIDR.
func (c *cluster) putCIDR(name string, ready, leaving bool, cidrs ...string) {
	c.t.Helper()
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	if ready {
		cidr.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue}}
	}
	if leaving {
		now := metav1.NewTime(time.Unix(1e9, 0))
		cidr.DeletionTimestamp = &now
	}
	kind := networking.ServiceCIDR()
	value, err := object.EncodeStored(kind.Type, cidr)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.store.Create(c.t.Context(), c.store.Prefix()+kind.Path+"/"+name, value, 0); err != nil {
		c.t.Fatal(err)
	}
}

// A network that a ServiceCIDR adds is used once the configured one is full, and for who asks; one that is not ready, or that goes, is not.
func TestServiceCIDRs(t *testing.T) {
	c := newCluster(t, storetest.New(t), "10.96.0.0/30") // 2 addresses
	c.putCIDR("kubernetes", true, false, "10.96.0.0/30")
	c.putCIDR("unready", false, false, "10.1.0.0/24")
	c.putCIDR("leaving", true, true, "10.2.0.0/24")
	for _, ip := range []string{"10.1.0.7", "10.2.0.7", "10.3.0.7"} {
		if _, err := c.create(service("refused", withIP(ip))); err == nil {
			t.Errorf("%s was given", ip)
		}
	}
	c.mustCreate(service("one"))
	c.mustCreate(service("two"))
	if _, err := c.create(service("three")); err == nil {
		t.Error("a third address of two")
	}
	c.putCIDR("more", true, false, "10.3.0.0/30")
	c.mustCreate(service("asks", withIP("10.3.0.2")))
	got := c.mustCreate(service("gets")).Spec.ClusterIP
	if got != "10.3.0.1" {
		t.Errorf("got %s, want the only one that is free", got)
	}
	if _, err := c.create(service("none")); err == nil {
		t.Error("a fifth address of four")
	}
	if err := c.Repair(t.Context()); err != nil || len(c.events) != 0 {
		t.Errorf("repair: %v, %v", err, c.events)
	}
	for _, ip := range []string{"10.3.0.1", "10.3.0.2"} {
		if stored, err := c.ips.get(t.Context(), netip.MustParseAddr(ip)); err != nil || stored == nil {
			t.Errorf("%s: %v, %v", ip, stored, err)
		}
	}
}
