package servicecidr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/controllers/internal/controllertest"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

// A network becomes ready, stays while one of its addresses is in use and no other network has it, and goes.
func TestLife(t *testing.T) {
	env := controllertest.Start(t)
	c := New(Config{Client: env.Client, Informers: env.Informers, Logger: env.Logger})
	c.now = func() time.Time { return time.Now().Add(grace + time.Second) } // the API servers know by then
	env.Run(c.Run)
	ctx, cidrs, addresses := t.Context(), env.Client.NetworkingV1().ServiceCIDRs(), env.Client.NetworkingV1().IPAddresses()
	create := func(name string, networks ...string) {
		t.Helper()
		cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: networks}}
		if _, err := cidrs.Create(ctx, cidr, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	is := func(name string, status metav1.ConditionStatus, reason string) {
		t.Helper()
		env.Eventually(func(ctx context.Context) error {
			cidr, err := cidrs.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			condition := meta.FindStatusCondition(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
			if condition == nil || condition.Status != status || condition.Reason != reason || !slices.Contains(cidr.Finalizers, finalizer) {
				return fmt.Errorf("%s is not %s %s", name, status, reason)
			}
			return nil
		})
	}
	gone := func(name string) {
		t.Helper()
		env.Eventually(func(ctx context.Context) error {
			if _, err := cidrs.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return errors.New(name + " is still there")
			}
			return nil
		})
	}
	remove := func(name string) {
		t.Helper()
		if err := cidrs.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	use := func(ip string) {
		t.Helper()
		address := &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: ip}, Spec: networkingv1.IPAddressSpec{
			ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "s"}}}
		if _, err := addresses.Create(ctx, address, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	create("one", "10.1.0.0/24", "fd00:1::/112")
	is("one", metav1.ConditionTrue, "NetworksReady")
	use("10.1.0.7")
	remove("one")
	is("one", metav1.ConditionFalse, "Terminating")
	if err := addresses.Delete(ctx, "10.1.0.7", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone("one")

	create("two", "10.2.0.0/24")
	is("two", metav1.ConditionTrue, "NetworksReady")
	use("10.2.0.7")
	create("wider", "10.2.0.0/16")
	is("wider", metav1.ConditionTrue, "NetworksReady")
	remove("two") // the other has its address, too
	gone("two")
	is("wider", metav1.ConditionTrue, "NetworksReady")
}
