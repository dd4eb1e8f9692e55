package quota_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
)

// world is a server that books, and no controller that recalculates: what a quota shows is what the plug-in has done.
type world struct {
	*testing.T
	server *apiservertest.Server
	client *kubernetes.Clientset
	space  string
}

func start(t *testing.T) *world {
	t.Helper()
	s := apiservertest.Start(t)
	return &world{t, s, s.Clientset(), ""}
}

// in is the world with a namespace of its own.
func (w *world) in(t *testing.T) *world {
	t.Helper()
	space, err := w.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, w.server, w.client, space.Name}
}

// list is what "pods=2 requests.cpu=1" says.
func list(text string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for pair := range strings.FieldsSeq(text) {
		name, amount, _ := strings.Cut(pair, "=")
		l[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return l
}

// limit makes a quota and says in its status, as the controller would, that it counts and what is used.
func (w *world) limit(name, hard, used string, change ...func(*corev1.ResourceQuotaSpec)) {
	w.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: list(hard)}}
	for _, c := range change {
		c(&q.Spec)
	}
	q, err := w.client.CoreV1().ResourceQuotas(w.space).Create(w.Context(), q, metav1.CreateOptions{})
	if err == nil {
		q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: list(used)}
		_, err = w.client.CoreV1().ResourceQuotas(w.space).UpdateStatus(w.Context(), q, metav1.UpdateOptions{})
	}
	if err != nil {
		w.Fatal(err)
	}
}

// used checks what a quota shows. Bookings are there when their requests are answered.
func (w *world) used(name, want string) {
	w.Helper()
	q, err := w.client.CoreV1().ResourceQuotas(w.space).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatal(err)
	}
	for of, amount := range list(want) {
		if have := q.Status.Used[of]; have.Cmp(amount) != 0 {
			w.Errorf("%s shows %s=%s as used, want %s", name, of, have.String(), amount.String())
		}
	}
}

// refused checks an error; "" is none.
func (w *world) refused(err error, want string) {
	w.Helper()
	switch {
	case want == "" && err != nil:
		w.Errorf("got %v, want it to pass", err)
	case want != "" && (err == nil || err.Error() != want || !apierrors.IsForbidden(err)):
		w.Errorf("got  %v\nwant %s", err, want)
	}
}

// pod creates a pod that requests what "cpu=1 memory=1Gi" says.
func (w *world) pod(name, requests string, change ...func(*corev1.Pod)) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: list(requests)}}},
	}}
	for _, c := range change {
		c(pod)
	}
	_, err := w.client.CoreV1().Pods(w.space).Create(w.Context(), pod, metav1.CreateOptions{})
	return err
}

// TestQuota has a namespace for each row.
func TestQuota(t *testing.T) {
	all := start(t)
	create := metav1.CreateOptions{}
	for name, test := range map[string]func(w *world){
		"counted": func(w *world) {
			w.limit("q", "pods=2 requests.cpu=1 limits.cpu=9", "pods=0 requests.cpu=0 limits.cpu=0")
			limited := func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = list("cpu=3") }
			w.refused(w.pod("a", "cpu=600m", limited), "")
			w.used("q", "pods=1 requests.cpu=600m limits.cpu=3")
			w.refused(w.pod("b", "cpu=600m", limited), `pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1`)
			w.refused(w.pod("b", "cpu=400m", limited), "")
			w.used("q", "pods=2 requests.cpu=1 limits.cpu=6")
			w.refused(w.pod("c", "cpu=1m", limited), `pods "c" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=1m, used: pods=2,requests.cpu=1, limited: pods=2,requests.cpu=1`)
			w.refused(w.pod("d", ""), `pods "d" is forbidden: failed quota: q: must specify limits.cpu for: c; requests.cpu for: c`)
			w.used("q", "pods=2 requests.cpu=1 limits.cpu=6")
		},
		"of two quotas the one that is full decides, and nothing stays booked in the other": func(w *world) {
			w.limit("narrow", "requests.memory=1Gi", "requests.memory=1Gi")
			w.limit("broad", "pods=9", "pods=0")
			w.refused(w.pod("a", "memory=1Mi"), `pods "a" is forbidden: exceeded quota: narrow, requested: requests.memory=1Mi, used: requests.memory=1Gi, limited: requests.memory=1Gi`)
			w.used("broad", "pods=0")
			w.used("narrow", "requests.memory=1Gi")
		},
		"not yet counted": func(w *world) {
			w.limit("q", "pods=2 requests.cpu=1", "pods=0")
			w.refused(w.pod("a", "cpu=1"), `pods "a" is forbidden: status unknown for quota: q, resources: pods,requests.cpu`)
		},
		"no limits in the status yet": func(w *world) {
			q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: list("pods=0")}}
			_, err := w.client.CoreV1().ResourceQuotas(w.space).Create(w.Context(), q, create)
			w.refused(err, "")
			w.refused(w.pod("a", ""), "")
		},
		"dry run": func(w *world) {
			w.limit("q", "pods=1", "pods=0")
			dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
			for range 2 {
				_, err := w.client.CoreV1().Pods(w.space).Create(w.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, dry)
				w.refused(err, "")
			}
			w.used("q", "pods=0")
			w.refused(w.pod("a", ""), "")
			_, err := w.client.CoreV1().Pods(w.space).Create(w.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}, dry)
			w.refused(err, `pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`)
		},
		"scopes": func(w *world) {
			scope := func(scopes ...corev1.ResourceQuotaScope) func(*corev1.ResourceQuotaSpec) {
				return func(s *corev1.ResourceQuotaSpec) { s.Scopes = scopes }
			}
			w.limit("best-effort", "pods=1", "pods=0", scope(corev1.ResourceQuotaScopeBestEffort))
			w.limit("terminating", "pods=1 requests.cpu=2", "pods=0 requests.cpu=0", scope(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotBestEffort))
			w.limit("urgent", "pods=1", "pods=0", func(s *corev1.ResourceQuotaSpec) {
				s.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
					{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn, Values: []string{"system-node-critical"}},
				}}
			})
			w.refused(w.pod("a", ""), "")
			w.refused(w.pod("b", ""), `pods "b" is forbidden: exceeded quota: best-effort, requested: pods=1, used: pods=1, limited: pods=1`)
			w.refused(w.pod("c", "cpu=1"), "") // in none of them
			ends := func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(60)) }
			w.refused(w.pod("d", "cpu=1", ends), "")
			w.refused(w.pod("e", "cpu=1", ends), `pods "e" is forbidden: exceeded quota: terminating, requested: pods=1, used: pods=1, limited: pods=1`)
			w.used("best-effort", "pods=1")
			w.used("terminating", "pods=1 requests.cpu=1")
			w.used("urgent", "pods=0")
		},
		"a service that changes": func(w *world) {
			w.limit("q", "services=2 services.nodeports=2 services.loadbalancers=0", "services=0 services.nodeports=0 services.loadbalancers=0")
			services := w.client.CoreV1().Services(w.space)
			s, err := services.Create(w.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Name: "a", Port: 1}, {Name: "b", Port: 2}},
			}}, create)
			w.refused(err, "")
			w.used("q", "services=1 services.nodeports=2")
			s.Spec.Type = corev1.ServiceTypeLoadBalancer
			_, err = services.Update(w.Context(), s, metav1.UpdateOptions{})
			w.refused(err, `services "s" is forbidden: exceeded quota: q, requested: services.loadbalancers=1, used: services.loadbalancers=0, limited: services.loadbalancers=0`)
			s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeNodePort, append(s.Spec.Ports, corev1.ServicePort{Name: "c", Port: 3})
			_, err = services.Update(w.Context(), s, metav1.UpdateOptions{})
			w.refused(err, `services "s" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=2, limited: services.nodeports=2`)
			s.Spec.Ports = s.Spec.Ports[:1]
			_, err = services.Update(w.Context(), s, metav1.UpdateOptions{})
			w.refused(err, "")
			w.used("q", "services=1 services.nodeports=1")
		},
		"who uses less may do so in a quota that is exceeded": func(w *world) {
			s, err := w.client.CoreV1().Services(w.space).Create(w.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Name: "a", Port: 1}, {Name: "b", Port: 2}, {Name: "c", Port: 3}},
			}}, create)
			w.refused(err, "")
			w.limit("q", "services.nodeports=1", "services.nodeports=3")
			s.Spec.Ports = s.Spec.Ports[:2]
			s, err = w.client.CoreV1().Services(w.space).Update(w.Context(), s, metav1.UpdateOptions{})
			w.refused(err, "")
			w.used("q", "services.nodeports=2")
			s.Labels = map[string]string{"changes": "nothing"}
			_, err = w.client.CoreV1().Services(w.space).Update(w.Context(), s, metav1.UpdateOptions{})
			w.refused(err, "")
		},
		"a pod that is resized": func(w *world) {
			w.limit("q", "requests.cpu=2", "requests.cpu=0")
			w.refused(w.pod("a", "cpu=1"), "")
			resize := func(cpu string) error {
				patch := fmt.Appendf(nil, `{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":%q}}}]}}`, cpu)
				_, err := w.client.CoreV1().Pods(w.space).Patch(w.Context(), "a", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize")
				return err
			}
			w.refused(resize("3"), `pods "a" is forbidden: exceeded quota: q, requested: requests.cpu=2, used: requests.cpu=1, limited: requests.cpu=2`)
			w.refused(resize("2"), "")
			w.used("q", "requests.cpu=2")
		},
		"any kind": func(w *world) {
			w.limit("q", "count/leases.coordination.k8s.io=1 count/deployments.apps=0 count/resourcequotas=5 configmaps=1", "count/leases.coordination.k8s.io=0 count/deployments.apps=0 count/resourcequotas=1 configmaps=0")
			lease := func(name string) error {
				_, err := w.client.CoordinationV1().Leases(w.space).Create(w.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, create)
				return err
			}
			w.refused(lease("a"), "")
			w.refused(lease("b"), `leases.coordination.k8s.io "b" is forbidden: exceeded quota: q, requested: count/leases.coordination.k8s.io=1, used: count/leases.coordination.k8s.io=1, limited: count/leases.coordination.k8s.io=1`)
			labels := map[string]string{"a": "b"}
			_, err := w.client.AppsV1().Deployments(w.space).Create(w.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
			}}, create)
			w.refused(err, `deployments.apps "d" is forbidden: exceeded quota: q, requested: count/deployments.apps=1, used: count/deployments.apps=0, limited: count/deployments.apps=0`)
			w.limit("r", "pods=1", "pods=0")
			w.used("q", "count/resourcequotas=2")
		},
		"claims on volumes": func(w *world) {
			w.limit("q", "requests.storage=3Gi fast.storageclass.storage.k8s.io/persistentvolumeclaims=1 fast.storageclass.storage.k8s.io/requests.storage=2Gi",
				"requests.storage=0 fast.storageclass.storage.k8s.io/persistentvolumeclaims=0 fast.storageclass.storage.k8s.io/requests.storage=0")
			claim := func(name, class, size string) error {
				_, err := w.client.CoreV1().PersistentVolumeClaims(w.space).Create(w.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
					StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: list("storage=" + size)},
				}}, create)
				return err
			}
			w.refused(claim("a", "fast", "2Gi"), "")
			w.refused(claim("b", "slow", "2Gi"), `persistentvolumeclaims "b" is forbidden: exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=2Gi, limited: requests.storage=3Gi`)
			w.refused(claim("b", "slow", "1Gi"), "")
			w.used("q", "requests.storage=3Gi fast.storageclass.storage.k8s.io/persistentvolumeclaims=1 fast.storageclass.storage.k8s.io/requests.storage=2Gi")
		},
		"claims on devices": func(w *world) {
			w.limit("q", "gpu.deviceclass.resource.k8s.io/devices=3", "gpu.deviceclass.resource.k8s.io/devices=0")
			claim := func(name string, count int64) error {
				_, err := w.client.ResourceV1().ResourceClaims(w.space).Create(w.Context(), &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
					Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}}},
				}}}, create)
				return err
			}
			w.refused(claim("a", 2), "")
			w.refused(claim("b", 2), `resourceclaims.resource.k8s.io "b" is forbidden: exceeded quota: q, requested: gpu.deviceclass.resource.k8s.io/devices=2, used: gpu.deviceclass.resource.k8s.io/devices=2, limited: gpu.deviceclass.resource.k8s.io/devices=3`)
			w.used("q", "gpu.deviceclass.resource.k8s.io/devices=2")
		},
		"a recalculation that has not seen the newest object": func(w *world) {
			w.limit("q", "pods=1", "pods=0")
			w.refused(w.pod("a", ""), "")
			q, err := w.client.CoreV1().ResourceQuotas(w.space).Get(w.Context(), "q", metav1.GetOptions{})
			w.refused(err, "")
			q.Status.Used = list("pods=0")
			_, err = w.client.CoreV1().ResourceQuotas(w.space).UpdateStatus(w.Context(), q, metav1.UpdateOptions{})
			w.refused(err, "")
			w.used("q", "pods=1")
			w.refused(w.pod("b", ""), `pods "b" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`)
		},
		"a create that fails is given back by the next recalculation": func(w *world) {
			w.limit("q", "pods=3", "pods=0")
			w.refused(w.pod("a", ""), "")
			if err := w.pod("a", ""); !apierrors.IsAlreadyExists(err) {
				w.Errorf("got %v, want AlreadyExists", err)
			}
			q, err := w.client.CoreV1().ResourceQuotas(w.space).Get(w.Context(), "q", metav1.GetOptions{})
			w.refused(err, "")
			q.Status.Used = list("pods=1")
			_, err = w.client.CoreV1().ResourceQuotas(w.space).UpdateStatus(w.Context(), q, metav1.UpdateOptions{})
			w.refused(err, "")
			q, err = w.client.CoreV1().ResourceQuotas(w.space).Get(w.Context(), "q", metav1.GetOptions{})
			w.refused(err, "")
			// The pod that is there may still be added as one that the count has not seen, but never the one that is not.
			if have := q.Status.Used[corev1.ResourcePods]; have.Value() > 2 {
				w.Errorf("%s pods are shown, there is one", have.String())
			}
		},
		"a quota that goes": func(w *world) {
			w.limit("q", "pods=1", "pods=1")
			w.refused(w.pod("a", ""), `pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`)
			w.refused(w.client.CoreV1().ResourceQuotas(w.space).Delete(w.Context(), "q", metav1.DeleteOptions{}), "")
			w.refused(w.pod("a", ""), "")
			w.limit("q", "pods=1", "pods=0") // another of its name: what the one before has shown does not count
			w.refused(w.pod("b", ""), "")
			w.used("q", "pods=1")
		},
	} {
		t.Run(name, func(t *testing.T) { test(all.in(t)) })
	}
}

// TestQuota_Together: two servers on one etcd, many clients of each, some of which give up. Neither quota is ever exceeded, and all the room is used.
func TestQuota_Together(t *testing.T) {
	const room, each = 30, 40
	first := start(t)
	second := apiservertest.Start(t, func(c *apiserver.Config) { c.Store = first.server.Store })
	w := first.in(t)
	w.limit("pods", fmt.Sprintf("pods=%d", room), "pods=0")
	w.limit("processors", "requests.cpu=100", "requests.cpu=0")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var made, refused, gaveUp atomic.Int64
	var group sync.WaitGroup
	for n, server := range []*apiservertest.Server{first.server, second} {
		client := server.Clientset()
		for i := range each {
			group.Go(func() {
				mine := t.Context()
				if i%8 == 7 {
					mine = ctx
				}
				_, err := client.CoreV1().Pods(w.space).Create(mine, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d-%d", n, i)}, Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: list("cpu=1")}}},
				}}, metav1.CreateOptions{})
				switch {
				case err == nil:
					made.Add(1)
				case apierrors.IsForbidden(err) && strings.HasSuffix(err.Error(), "exceeded quota: pods, requested: pods=1, used: pods=30, limited: pods=30"):
					refused.Add(1)
				case mine == ctx && ctx.Err() != nil:
					gaveUp.Add(1)
				default:
					t.Error(err)
				}
				if i == 0 {
					cancel() // while others wait for their turn
				}
			})
		}
	}
	group.Wait()
	pods, err := first.client.CoreV1().Pods(w.space).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d made, %d refused, %d given up, %d pods", made.Load(), refused.Load(), gaveUp.Load(), len(pods.Items))
	// A request that was given up may have booked without a pod, or made a pod without an answer.
	if n := len(pods.Items); n > room || n < room-int(gaveUp.Load()) || int(made.Load()) > n {
		t.Errorf("%d pods where there is room for %d; %d requests gave up", n, room, gaveUp.Load())
	}
	w.used("pods", "pods=30")
	w.used("processors", "requests.cpu=30")
}
