package bootstrap_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/apiservertest"
	"vigil/apiserver/bootstrap"
	"vigil/internal/eventually"
	"vigil/kinds"
	"vigil/object"
	"vigil/store"
	"vigil/watchcache"
)

func begin(t *testing.T, s *apiservertest.Server, address string) *bootstrap.Bootstrap {
	t.Helper()
	b, err := bootstrap.New(bootstrap.Config{
		Kinds:         s.Kinds,
		Writer:        s.Writer(),
		Newest:        func(k *kinds.Kind, key string) (*object.Version, bool) { return s.Cache(k).Get(key) },
		Store:         s.Store,
		Prefix:        s.Store.Prefix(),
		ServiceRanges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")},
		Address:       netip.MustParseAddr(address),
		Port:          6443,
		SystemLeases: func() ([]*object.Version, error) {
			page, err := s.Cache(s.Table.ByResource(coordinationv1.SchemeGroupVersion.WithResource("leases"))).Snapshot().List(watchcache.Selection{Namespace: "kube-system"}, "", 0)
			return page.Items, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// servers are the addresses in Endpoints and EndpointSlice of the Service kubernetes.
func servers(t *testing.T, c kubernetes.Interface) (endpoints, slice []string) {
	t.Helper()
	e, err := c.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{}) //nolint:staticcheck // what is tested
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range e.Subsets[0].Addresses {
		endpoints = append(endpoints, a.IP)
	}
	s, err := c.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range s.Endpoints {
		slice = append(slice, e.Addresses...)
	}
	return endpoints, slice
}

func do(t *testing.T, f func(context.Context) error) {
	t.Helper()
	if err := f(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestEnsure_DefaultObjects: everything is there, and comes back when it is deleted.
func TestEnsure_DefaultObjects(t *testing.T) {
	s := apiservertest.Start(t)
	c, b := s.Clientset(), begin(t, s, "192.0.2.1")
	ctx := t.Context()
	check := func() {
		t.Helper()
		for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			if _, err := c.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		}
		for name, value := range map[string]int32{"system-node-critical": 2000001000, "system-cluster-critical": 2000000000} {
			if class, err := c.SchedulingV1().PriorityClasses().Get(ctx, name, metav1.GetOptions{}); err != nil || class.Value != value {
				t.Errorf("%s: %v, %v", name, class, err)
			}
		}
		for _, name := range []string{"v1.", "v1.apps", "v2.autoscaling"} {
			data, err := c.Discovery().RESTClient().Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices/" + name).DoRaw(ctx)
			if err != nil || !strings.Contains(string(data), `"reason":"Local"`) || !strings.Contains(string(data), `"kube-aggregator.kubernetes.io/automanaged":"onstart"`) {
				t.Errorf("%s: %s, %v", name, data, err)
			}
		}
		tracking, err := c.CoreV1().ConfigMaps("kube-system").Get(ctx, "kube-apiserver-legacy-service-account-token-tracking", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if since, err := time.Parse(time.DateOnly, tracking.Data["since"]); err != nil || time.Since(since) > 48*time.Hour {
			t.Errorf("uses of tokens in Secrets are noted since %q", tracking.Data["since"])
		}
		cidr, err := c.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil || !slices.Equal(cidr.Spec.CIDRs, []string{"10.96.0.0/16"}) || len(cidr.Status.Conditions) != 1 || cidr.Status.Conditions[0].Status != metav1.ConditionTrue {
			t.Errorf("%v, %v", cidr, err)
		}
		svc, err := c.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil || svc.Spec.ClusterIP != "10.96.0.1" || svc.Spec.Ports[0].TargetPort.IntVal != 6443 {
			t.Errorf("%v, %v", svc, err)
		}
	}
	do(t, b.Ensure)
	check()
	if err := c.CoreV1().Services("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.SchedulingV1().PriorityClasses().Delete(ctx, "system-node-critical", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// A date that cannot be read is replaced.
	if _, err := c.CoreV1().ConfigMaps("kube-system").Patch(ctx, "kube-apiserver-legacy-service-account-token-tracking", types.MergePatchType, []byte(`{"data":{"since":"yesterday"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if list, err := c.CoreV1().Services("default").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 { // and the cache is fresh
		t.Fatalf("%v, %v", list, err)
	}
	do(t, b.Ensure)
	check()
}

// TestEnsure_Servers: several servers are in the endpoints, until they leave or their leases run out.
func TestEnsure_Servers(t *testing.T) {
	s := apiservertest.Start(t)
	c := s.Clientset()
	one, two, three := begin(t, s, "192.0.2.1"), begin(t, s, "192.0.2.2"), begin(t, s, "192.0.2.3")
	want := func(addresses ...string) {
		t.Helper()
		endpoints, slice := servers(t, c)
		if !slices.Equal(endpoints, addresses) || !slices.Equal(slice, addresses) {
			t.Fatalf("endpoints %v, slice %v, want %v", endpoints, slice, addresses)
		}
	}
	do(t, one.Ensure)
	want("192.0.2.1")
	do(t, three.Ensure)
	want("192.0.2.1", "192.0.2.3")
	do(t, two.Ensure)
	want("192.0.2.1", "192.0.2.2", "192.0.2.3")
	do(t, one.Leave)
	want("192.0.2.2", "192.0.2.3")

	// What etcd does when a server is killed.
	kv, err := s.Store.Get(t.Context(), s.Store.Prefix()+"masterleases/192.0.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Store.Delete(t.Context(), kv.Key, kv.ModRev); err != nil {
		t.Fatal(err)
	}
	do(t, two.Ensure)
	want("192.0.2.2")
	do(t, two.Leave) // the last one stays: somebody may come back at the same address
	want("192.0.2.2")
	if list, err := s.Store.List(t.Context(), s.Store.Prefix()+"masterleases/", store.ListOptions{}); err != nil || len(list.KVs) != 0 {
		t.Errorf("leases left: %v, %v", list.KVs, err)
	}
}

// TestEnsure_Identity: a server has a Lease while it lives, which others can tell from one that a dead server has left, and deletes those
// that nobody renews.
func TestEnsure_Identity(t *testing.T) {
	s := apiservertest.Start(t)
	ctx, leases := t.Context(), s.Clientset().CoordinationV1().Leases("kube-system")
	own := func() *coordinationv1.Lease {
		t.Helper()
		list, err := leases.List(ctx, metav1.ListOptions{LabelSelector: "apiserver.kubernetes.io/identity=kube-apiserver"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if strings.HasPrefix(list.Items[i].Name, "apiserver-") && len(list.Items[i].Name) == len("apiserver-")+26 {
				return &list.Items[i]
			}
		}
		t.Fatalf("no lease of this server among %v", list.Items)
		return nil
	}
	first := begin(t, s, "192.0.2.1")
	do(t, first.Ensure)
	made := own()
	if made.Labels["kubernetes.io/hostname"] == "" || !strings.HasPrefix(*made.Spec.HolderIdentity, made.Name+"_") || *made.Spec.LeaseDurationSeconds != 3600 {
		t.Errorf("lease: %+v", made)
	}
	do(t, first.Ensure)
	if renewed := own(); renewed.UID != made.UID || !renewed.Spec.RenewTime.After(made.Spec.RenewTime.Time) {
		t.Errorf("renewed: %+v, was %+v", renewed, made)
	}

	// A server that starts again finds what it has left, and the leases of others.
	lease := func(name, identity string, renewed time.Duration) {
		t.Helper()
		object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"apiserver.kubernetes.io/identity": identity}}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &name, LeaseDurationSeconds: new(int32(3600)), RenewTime: new(metav1.NewMicroTime(time.Now().Add(-renewed))),
		}}
		if _, err := leases.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	lease("living", "kube-apiserver", 30*time.Minute)
	lease("dead", "kube-apiserver", 61*time.Minute)
	lease("other", "something-else", 61*time.Minute)
	if _, err := leases.List(ctx, metav1.ListOptions{}); err != nil { // and the cache is fresh
		t.Fatal(err)
	}
	again := begin(t, s, "192.0.2.1")
	do(t, again.Ensure)
	if now := own(); now.UID == made.UID || *now.Spec.HolderIdentity == *made.Spec.HolderIdentity {
		t.Errorf("the lease of the server before was kept: %+v", now)
	}
	for name, kept := range map[string]bool{"living": true, "dead": false, "other": true} {
		if _, err := leases.Get(ctx, name, metav1.GetOptions{}); kept && err != nil || !kept && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	name := own().Name
	if err := leases.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := leases.List(ctx, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	do(t, again.Ensure)
	own()
	do(t, again.Leave)
	if _, err := leases.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the server has left: %v", err)
	}
}

// TestAPIServices_Change: APIServices follow what is served; what others have made of one is theirs.
func TestAPIServices_Change(t *testing.T) {
	s := apiservertest.Start(t)
	b := begin(t, s, "10.1.2.3")
	rest := s.Clientset().Discovery().RESTClient()
	row := func(version string) *kinds.Kind {
		k := *s.Table.ByResource(corev1.SchemeGroupVersion.WithResource("configmaps"))
		k.GVK = schema.GroupVersionKind{Group: "stable.example.com", Version: version, Kind: "Widget"}
		k.Resource, k.Path = "widgets", "stable.example.com/widgets-"+version
		return &k
	}
	is := func(there bool, version string) {
		t.Helper()
		if err := b.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := rest.Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices/" + version + ".stable.example.com").Do(t.Context()).Error()
		if there && err != nil || !there && !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v, there should be one: %v", version, err, there)
		}
	}
	serve := func(remove, add []*kinds.Kind) {
		t.Helper()
		if err := s.Serve(t.Context(), remove, add); err != nil {
			t.Fatal(err)
		}
	}
	is(false, "v1")
	v1, v2 := row("v1"), row("v2")
	serve(nil, []*kinds.Kind{v1, v2})
	is(true, "v1")
	is(true, "v2")
	if err := rest.Patch(types.MergePatchType).AbsPath("/apis/apiregistration.k8s.io/v1/apiservices/v2.stable.example.com").
		Body([]byte(`{"metadata":{"labels":null}}`)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the cache has the patch", func() bool {
		k := s.Table.ByResource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"})
		v, ok := s.Cache(k).Get(s.Store.Prefix() + k.Path + "/v2.stable.example.com")
		labels := 0
		if ok {
			v.EachLabel(func(string, string) { labels++ })
		}
		return ok && labels == 0
	})
	serve([]*kinds.Kind{v1, v2}, nil)
	is(false, "v1")
	is(true, "v2")
}
