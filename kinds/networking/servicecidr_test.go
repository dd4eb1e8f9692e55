package networking

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

type cidr = kindtest.Case[networkingv1.ServiceCIDR]

// withCIDRs returns an edit that replaces the networks.
func withCIDRs(cidrs ...string) func(*networkingv1.ServiceCIDR) {
	return func(c *networkingv1.ServiceCIDR) { c.Spec.CIDRs = cidrs }
}

func goodCIDR() *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/12"}},
	}
}

func TestServiceCIDR_Minimal(t *testing.T) {
	const minimal = `{metadata: {name: kubernetes}, spec: {cidrs: [10.96.0.0/12]}}`
	kindtest.Minimal(t, ServiceCIDR(), minimal, minimal)
}

func TestServiceCIDR_Create(t *testing.T) {
	kindtest.Create(t, ServiceCIDR(), goodCIDR(),
		cidr{Name: "dual", Edit: withCIDRs("fd00::/112", "10.0.0.0/24")},
		cidr{Name: "none", Edit: withCIDRs(), Want: []string{"spec.cidrs: Required value: at least one CIDR required"}},
		cidr{
			Name: "three", Edit: withCIDRs("10.0.0.0/24", "fd00::/112", "10.0.1.0/24"),
			Want: []string{`spec.cidrs: Invalid value: {"cidrs":["10.0.0.0/24","fd00::/112","10.0.1.0/24"]}: may only hold up to 2 values`},
		},
		cidr{
			Name: "text", Edit: withCIDRs("x"),
			Want: []string{`spec.cidrs[0]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)`},
		},
		cidr{
			Name: "host bits", Edit: withCIDRs("10.0.0.1/24"),
			Want: []string{`spec.cidrs[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length`},
		},
		cidr{
			Name: "one family", Edit: withCIDRs("10.0.0.0/24", "10.0.1.0/24"),
			Want: []string{`spec.cidrs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64`},
		},
	)
}

func TestServiceCIDR_Update(t *testing.T) {
	kindtest.Update(t, ServiceCIDR(), goodCIDR(),
		cidr{Name: "second family", Edit: withCIDRs("10.96.0.0/12", "fd00::/112")},
		cidr{
			Name: "changed", Edit: withCIDRs("10.0.0.0/24"),
			Want: []string{`spec.cidrs[0]: Invalid value: "10.0.0.0/24": field is immutable`},
		},
		cidr{
			Name: "changed and added", Edit: withCIDRs("fd00::/112", "10.96.0.0/12"),
			Want: []string{`spec.cidrs[0]: Invalid value: "fd00::/112": field is immutable`},
		},
	)
	dual := goodCIDR()
	withCIDRs("10.96.0.0/12", "fd00::/112")(dual)
	kindtest.Update(t, ServiceCIDR(), dual, cidr{
		Name: "taken away", Edit: withCIDRs("10.96.0.0/12"),
		Want: []string{`spec.cidrs: Invalid value: ["10.96.0.0/12"]: field is immutable`},
	})
}

func TestServiceCIDR_Status(t *testing.T) {
	obj, old := goodCIDR(), goodCIDR()
	obj.Spec.CIDRs = nil
	obj.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True"}}
	kindtest.Errors(t, kindtest.Change(ServiceCIDR(), "status", obj, old))
	if len(obj.Spec.CIDRs) != 1 || len(obj.Status.Conditions) != 1 {
		t.Errorf("stored: %+v %+v", obj.Spec, obj.Status)
	}
}

func TestServiceCIDR_Row(t *testing.T) {
	obj := goodCIDR()
	withCIDRs("10.96.0.0/12", "fd00::/112")(obj)
	kindtest.Row(t, ServiceCIDR(), obj, time.Now(), "kubernetes", "10.96.0.0/12,fd00::/112", "<unknown>")
}
