package test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/eventually"
	"vigil/test/harness"
)

var serviceSeed = flag.Uint64("services.seed", 0, "seed of the crash test of services; 0 draws one")

// What a cluster begins with, as clients look for it.
func TestDefaultObjects(t *testing.T) {
	p := startCluster(t)
	c, ctx := p.Client(), context.Background()

	svc, err := c.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if svc.Spec.ClusterIP != "10.96.0.1" || svc.Labels["component"] != "apiserver" || svc.Labels["provider"] != "kubernetes" ||
		svc.Spec.Ports[0].Port != 443 || svc.Spec.Ports[0].Name != "https" || len(svc.Spec.Selector) != 0 {
		t.Errorf("the Service: %+v", svc)
	}
	slice, err := c.DiscoveryV1().EndpointSlices("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if slice.Labels["kubernetes.io/service-name"] != "kubernetes" || len(slice.Endpoints) != 1 || *slice.Ports[0].Port != int32(p.port) || *slice.Ports[0].Name != "https" {
		t.Errorf("the EndpointSlice: %+v", slice)
	}
	//lint:ignore SA1019 clients still read it
	endpoints, err := c.CoreV1().Endpoints("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(endpoints.Subsets) != 1 || endpoints.Subsets[0].Addresses[0].IP != slice.Endpoints[0].Addresses[0] || endpoints.Labels["endpointslice.kubernetes.io/skip-mirror"] != "true" {
		t.Errorf("the Endpoints: %+v", endpoints)
	}
	cidr, err := c.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cidr.Status.Conditions) != 1 || cidr.Status.Conditions[0].Type != "Ready" || cidr.Status.Conditions[0].Status != metav1.ConditionTrue {
		t.Errorf("the ServiceCIDR: %+v", cidr)
	}
	address, err := c.NetworkingV1().IPAddresses().Get(ctx, "10.96.0.1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if parent := address.Spec.ParentRef; parent == nil || parent.Group != "" || parent.Resource != "services" || parent.Namespace != "default" || parent.Name != "kubernetes" {
		t.Errorf("the IPAddress belongs to %+v", parent)
	}
	if address.Labels["ipaddress.kubernetes.io/ip-family"] != "IPv4" || address.Labels["ipaddress.kubernetes.io/managed-by"] != "ipallocator.k8s.io" {
		t.Errorf("the IPAddress has labels %v", address.Labels)
	}

	p.Kubectl("create", "namespace", "team")
	eventually.Nil(t, "each namespace has the CA and a default service account", func() error {
		for _, namespace := range []string{"default", "kube-system", "kube-public", "kube-node-lease", "team"} {
			ca, err := c.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if !strings.HasPrefix(ca.Data["ca.crt"], "-----BEGIN CERTIFICATE-----") {
				return fmt.Errorf("the CA of %s is %q", namespace, ca.Data["ca.crt"])
			}
			if _, err := c.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	p.Kubectl("delete", "cm", "kube-root-ca.crt", "-n", "team")
	eventually.Nil(t, "the CA comes back", func() error {
		_, err := c.CoreV1().ConfigMaps("team").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})

	if _, row := columns(p.Kubectl("get", "apiservices"), "v1.apps"); !strings.HasPrefix(row, "v1.apps Local True ") {
		t.Errorf("the APIService of apps/v1: %q", row)
	}

	class, err := c.SchedulingV1().PriorityClasses().Get(ctx, "system-node-critical", metav1.GetOptions{})
	if err != nil || class.Value != 2000001000 {
		t.Errorf("%+v, %v", class, err)
	}
	mustContain(t, p.KubectlFails("", "create", "priorityclass", "huge", "--value=1000000001"), "maximum allowed value of a user defined priority is 1000000000")
	mustContain(t, p.KubectlFails("", "create", "priorityclass", "system-mine", "--value=1"), "priority class names with 'system-' prefix are reserved for system use only")
	mustContain(t, p.KubectlFails("", "patch", "pc", "system-node-critical", "-p", `{"value":7}`), "may not be changed in an update")
}

// Services get addresses and ports while the process is killed again and again: nothing that somebody has is given to another, and
// who was told of a service still has it.
func TestCrash_ServicesKeepWhatTheyHave(t *testing.T) {
	seed := *serviceSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	p := startCluster(t, "--nodes", "0")

	told := map[string]*corev1.Service{} // by name, as the server answered
	unsure := map[string]bool{}          // a delete was on its way
	var mu sync.Mutex
	for round := range 4 {
		services := p.Client().CoreV1().Services("default")
		ctx, cancel := context.WithCancel(context.Background())
		killAt := len(told) + 20 + random.IntN(40)
		reached := make(chan struct{})
		var once sync.Once
		var group sync.WaitGroup
		for w := range 6 {
			group.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					name := fmt.Sprintf("s-%d-%d-%d", round, w, i)
					made, err := services.Create(ctx, &corev1.Service{
						ObjectMeta: metav1.ObjectMeta{Name: name},
						Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}},
					}, metav1.CreateOptions{})
					if err != nil {
						continue // the process is gone
					}
					mu.Lock()
					told[name] = made
					n := len(told)
					unsure[name] = i%3 == 2
					mu.Unlock()
					if n >= killAt {
						once.Do(func() { close(reached) })
					}
					if i%3 == 2 {
						_ = services.Delete(ctx, name, metav1.DeleteOptions{})
					}
				}
			})
		}
		<-reached
		p.Kill()
		cancel()
		group.Wait()
		p.Up()
		checkServices(t, p, told, unsure)
	}
	if t.Failed() {
		t.Logf("seed %d", seed)
	}
}

func checkServices(t *testing.T, p *cluster, told map[string]*corev1.Service, unsure map[string]bool) {
	t.Helper()
	c, ctx := p.Client(), context.Background()
	list, err := c.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	addresses, ports := map[string]string{}, map[int32]string{}
	found := map[string]*corev1.Service{}
	for i := range list.Items {
		svc := &list.Items[i]
		found[svc.Name] = svc
		if other, taken := addresses[svc.Spec.ClusterIP]; taken {
			t.Errorf("%s and %s have both %s", svc.Name, other, svc.Spec.ClusterIP)
		}
		addresses[svc.Spec.ClusterIP] = svc.Name
		if !netip.MustParsePrefix("10.96.0.0/12").Contains(netip.MustParseAddr(svc.Spec.ClusterIP)) {
			t.Errorf("%s has %s", svc.Name, svc.Spec.ClusterIP)
		}
		if port := svc.Spec.Ports[0].NodePort; port != 0 {
			if other, taken := ports[port]; taken {
				t.Errorf("%s and %s have both port %d", svc.Name, other, port)
			}
			ports[port] = svc.Name
		}
	}
	for name, want := range told {
		got := found[name]
		if got == nil {
			if !unsure[name] {
				t.Errorf("%s is lost", name)
			}
			continue
		}
		if got.Spec.ClusterIP != want.Spec.ClusterIP || got.Spec.Ports[0].NodePort != want.Spec.Ports[0].NodePort {
			t.Errorf("%s has %s and port %d, was told %s and %d", name, got.Spec.ClusterIP, got.Spec.Ports[0].NodePort, want.Spec.ClusterIP, want.Spec.Ports[0].NodePort)
		}
	}
	// Each address is written down, and asking for one or for a port that is taken is refused.
	for ip, name := range addresses {
		address, err := c.NetworkingV1().IPAddresses().Get(ctx, ip, metav1.GetOptions{})
		if err != nil || address.Spec.ParentRef.Name != name {
			t.Errorf("%s of %s: %v, %v", ip, name, address, err)
		}
	}
	for port := range ports {
		_, err := c.CoreV1().Services("default").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "thief"},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: port}}},
		}, metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) {
			t.Errorf("taking port %d once more: %v", port, err)
		}
		break
	}
}

// A cluster gets more addresses for its services, and gives a network up when nothing needs it any more.
func TestServiceCIDR(t *testing.T) {
	p := startCluster(t, "--nodes", "0")
	p.KubectlIn("apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: more}\nspec: {cidrs: [172.20.0.0/24]}\n", "create", "-f", "-")
	p.Kubectl("wait", "servicecidr/more", "--for=condition=Ready", harness.InTime)
	p.Kubectl("create", "service", "clusterip", "s", "--tcp=80", "--clusterip=172.20.0.9")
	if got := p.Kubectl("get", "ipaddress", "172.20.0.9", "-o", "jsonpath={.spec.parentRef.name}"); got != "s" {
		t.Errorf("the address belongs to %q", got)
	}
	mustContain(t, p.KubectlFails("", "create", "service", "clusterip", "x", "--tcp=80", "--clusterip=172.21.0.9"), "spec.clusterIPs: Invalid value", "not in the valid range")
	p.Kubectl("delete", "servicecidr", "more", "--wait=false")
	p.Kubectl("wait", "servicecidr/more", "--for=condition=Ready=false", harness.InTime)
	mustContain(t, p.Kubectl("describe", "servicecidr", "more"), "There are still IPAddresses referencing the ServiceCIDR")
	p.Kubectl("delete", "service", "s")
	p.Kubectl("wait", "servicecidr/more", "--for=delete", harness.InTime)
}
