package quota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func amounts(pairs ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return list
}

func podOf(change func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "a", Resources: corev1.ResourceRequirements{Requests: amounts("cpu", "100m", "memory", "1Gi", "example.com/gpu", "2"), Limits: amounts("cpu", "200m")}},
		{Name: "b", Resources: corev1.ResourceRequirements{Requests: amounts("cpu", "1", "hugepages-2Mi", "4Mi")}},
	}}}
	if change != nil {
		change(pod)
	}
	return pod
}

func TestUsage(t *testing.T) {
	grace, class, no := int64(30), "gold", false
	counted := amounts("count/pods", "1")
	whole := amounts("count/pods", "1", "pods", "1", "cpu", "1100m", "requests.cpu", "1100m", "memory", "1Gi", "requests.memory", "1Gi",
		"limits.cpu", "200m", "requests.example.com/gpu", "2", "hugepages-2Mi", "4Mi", "requests.hugepages-2Mi", "4Mi")
	ports := []corev1.ServicePort{{Port: 1}, {Port: 2, NodePort: 30001}}
	for _, c := range []struct {
		name     string
		resource string
		obj      runtime.Object
		want     corev1.ResourceList
	}{
		{"pod", "pods", podOf(nil), whole},
		{"pod that has ended", "pods", podOf(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), counted},
		{"pod that is ending", "pods", podOf(func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(-time.Second)}, &grace
		}), whole},
		{"pod that should have ended", "pods", podOf(func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now.Add(-time.Minute)}, &grace
		}), counted},
		{"cluster IP", "services", &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Ports: ports}},
			amounts("count/services", "1", "services", "1", "services.nodeports", "0", "services.loadbalancers", "0")},
		{"node port", "services", &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: ports}},
			amounts("count/services", "1", "services", "1", "services.nodeports", "2", "services.loadbalancers", "0")},
		{"load balancer with one port", "services", &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: ports, AllocateLoadBalancerNodePorts: &no}},
			amounts("count/services", "1", "services", "1", "services.nodeports", "1", "services.loadbalancers", "1")},
		{"claim", "persistentvolumeclaims", &corev1.PersistentVolumeClaim{
			Spec:   corev1.PersistentVolumeClaimSpec{StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{Requests: amounts("storage", "1Gi")}},
			Status: corev1.PersistentVolumeClaimStatus{AllocatedResources: amounts("storage", "2Gi")},
		}, amounts("count/persistentvolumeclaims", "1", "persistentvolumeclaims", "1", "requests.storage", "2Gi",
			"gold.storageclass.storage.k8s.io/requests.storage", "2Gi", "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "1")},
		{"secret", "secrets", &corev1.Secret{}, amounts("count/secrets", "1", "secrets", "1")},
		{"deployment", "deployments.apps", nil, amounts("count/deployments.apps", "1")},
	} {
		e := For(schema.ParseGroupResource(c.resource))
		if got := e.Usage(c.obj, now); !Equal(got, c.want) {
			t.Errorf("%s: got  %s\nwant %s", c.name, Text(got), Text(c.want))
		}
	}
}

func TestScopes(t *testing.T) {
	seconds := int64(5)
	effort := podOf(func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{{Name: "c"}} })
	ending := podOf(func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = &seconds })
	high := podOf(func(p *corev1.Pod) { p.Spec.PriorityClassName = "high" })
	far := podOf(func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{Namespaces: []string{"x"}}}}}
	})
	scope := func(names ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Scopes: names}}
	}
	selector := func(op corev1.ScopeSelectorOperator, values ...string) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{ScopeSelector: &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: op, Values: values},
		}}}}
	}
	for i, c := range []struct {
		q    *corev1.ResourceQuota
		pod  *corev1.Pod
		want bool
	}{
		{scope(), effort, true},
		{scope(corev1.ResourceQuotaScopeBestEffort), effort, true},
		{scope(corev1.ResourceQuotaScopeBestEffort), high, false},
		{scope(corev1.ResourceQuotaScopeNotBestEffort), high, true},
		{scope(corev1.ResourceQuotaScopeTerminating), ending, true},
		{scope(corev1.ResourceQuotaScopeNotTerminating), ending, false},
		{scope(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeBestEffort), ending, false},
		{scope(corev1.ResourceQuotaScopePriorityClass), effort, false},
		{scope(corev1.ResourceQuotaScopePriorityClass), high, true},
		{scope(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), far, true},
		{scope(corev1.ResourceQuotaScopeCrossNamespacePodAffinity), high, false},
		{selector(corev1.ScopeSelectorOpIn, "low", "high"), high, true},
		{selector(corev1.ScopeSelectorOpIn, "low"), high, false},
		{selector(corev1.ScopeSelectorOpNotIn, "low"), effort, true},
		{selector(corev1.ScopeSelectorOpDoesNotExist), effort, true},
	} {
		e := For(pods.Resource)
		if got := e.Matches(c.q, amounts("pods", "1"), c.pod); got != c.want {
			t.Errorf("%d: got %v", i, got)
		}
	}
	secrets := For(schema.GroupResource{Resource: "secrets"})
	if secrets.Matches(scope(corev1.ResourceQuotaScopeBestEffort), amounts("secrets", "1"), &corev1.Secret{}) {
		t.Error("a secret is in the scope of pods")
	}
}

func TestConstraints(t *testing.T) {
	e := For(pods.Resource)
	err := e.Constraints(podOf(nil), []corev1.ResourceName{"limits.cpu", "pods", "requests.memory", "requests.ephemeral-storage", "requests.cpu"})
	if want := "must specify limits.cpu for: b; requests.memory for: b"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	whole := podOf(func(p *corev1.Pod) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: amounts("memory", "1Gi")}
	})
	if err := e.Constraints(whole, []corev1.ResourceName{"requests.memory"}); err != nil {
		t.Error(err)
	}
}

func TestCounted(t *testing.T) {
	for name, want := range map[corev1.ResourceName]string{"count/deployments.apps": "deployments.apps", "count/pods": "pods", "configmaps": "configmaps", "cpu": ""} {
		got, ok := Counted(name)
		if got.String() != want || ok != (want != "") {
			t.Errorf("%s: got %s, %v", name, got, ok)
		}
	}
}
