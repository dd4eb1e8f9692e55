package resourcequota_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/controllers/internal/controllertest"
	"vigil/controllers/resourcequota"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

// start runs the controller over a server that books.
func start(t *testing.T) *controllertest.Env {
	env := controllertest.Start(t)
	c := resourcequota.New(resourcequota.Config{
		Client: env.Client, Metadata: env.Metadata, Discovery: env.Client.Discovery(), Informers: env.Informers, Logger: env.Logger,
	})
	env.Run(c.Run)
	return env
}

// limit makes a quota and waits until it counts.
func limit(env *controllertest.Env, name string, hard map[string]string) {
	env.T.Helper()
	list := corev1.ResourceList{}
	for resourceName, amount := range hard {
		list[corev1.ResourceName(resourceName)] = resource.MustParse(amount)
	}
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{Hard: list}}
	if _, err := env.Client.CoreV1().ResourceQuotas("default").Create(env.T.Context(), q, metav1.CreateOptions{}); err != nil {
		env.T.Fatal(err)
	}
	env.Eventually(func(ctx context.Context) error {
		q, err := env.Client.CoreV1().ResourceQuotas("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(q.Status.Used) != len(list) {
			return fmt.Errorf("used is %v", q.Status.Used)
		}
		return nil
	})
}

// shows waits until a quota shows amounts as used.
func shows(env *controllertest.Env, name string, used map[string]string) {
	env.T.Helper()
	env.Eventually(func(ctx context.Context) error {
		q, err := env.Client.CoreV1().ResourceQuotas("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for of, want := range used {
			if have := q.Status.Used[corev1.ResourceName(of)]; have.Cmp(resource.MustParse(want)) != 0 {
				return fmt.Errorf("%s: %s used, want %s", of, have.String(), want)
			}
		}
		return nil
	})
}

func pod(name string, requests map[string]string) *corev1.Pod {
	list := corev1.ResourceList{}
	for of, amount := range requests {
		list[corev1.ResourceName(of)] = resource.MustParse(amount)
	}
	none := int64(0)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &none,
			Containers:                    []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: list}}},
		},
	}
}

// One hundred clients want a pod each, and the quota has room for fifty. While they try, somebody has the quota recalculated all the
// time: that loses no booking.
func TestQuota_ManyCreators(t *testing.T) {
	env := start(t)
	limit(env, "q", map[string]string{"pods": "50", "requests.cpu": "100"})
	ctx, stop := context.WithCancel(t.Context())
	var meddler sync.WaitGroup
	meddler.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			patch := fmt.Appendf(nil, `{"spec":{"hard":{"requests.cpu":"%d"}}}`, 100+i%2)
			_, _ = env.Client.CoreV1().ResourceQuotas("default").Patch(ctx, "q", "application/merge-patch+json", patch, metav1.PatchOptions{})
		}
	})
	var created, refused atomic.Int64
	var group sync.WaitGroup
	for i := range 100 {
		client, err := kubernetes.NewForConfig(env.Server)
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			_, err := client.CoreV1().Pods("default").Create(t.Context(), pod(fmt.Sprintf("p%d", i), map[string]string{"cpu": "10m"}), metav1.CreateOptions{})
			switch {
			case err == nil:
				created.Add(1)
			case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota: q, requested: pods=1, used: pods=50, limited: pods=50"):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	group.Wait()
	stop()
	meddler.Wait()
	if created.Load() != 50 || refused.Load() != 50 {
		t.Errorf("%d created, %d refused", created.Load(), refused.Load())
	}
	list, err := env.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 50 {
		t.Errorf("%d pods", len(list.Items))
	}
	shows(env, "q", map[string]string{"pods": "50", "requests.cpu": "500m"})
}

func TestQuota_ComesAndGoes(t *testing.T) {
	env := start(t)
	pods := env.Client.CoreV1().Pods("default")
	limit(env, "q", map[string]string{"pods": "2", "requests.cpu": "1", "count/configmaps": "2", "services.nodeports": "1", "services": "5"})

	_, err := pods.Create(t.Context(), pod("bare", nil), metav1.CreateOptions{})
	want := `pods "bare" is forbidden: failed quota: q: must specify requests.cpu for: c`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err := pods.Create(t.Context(), pod("a", map[string]string{"cpu": "600m"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = pods.Create(t.Context(), pod("b", map[string]string{"cpu": "600m"}), metav1.CreateOptions{})
	want = `pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	// What fits, but fails for another reason, does not stay booked.
	if _, err = pods.Create(t.Context(), pod("a", map[string]string{"cpu": "100m"}), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	shows(env, "q", map[string]string{"pods": "1", "requests.cpu": "600m"})
	if err := pods.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	shows(env, "q", map[string]string{"pods": "0", "requests.cpu": "0"})

	maps := env.Client.CoreV1().ConfigMaps("default")
	for i := range 3 {
		_, err = maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}}, metav1.CreateOptions{})
	}
	want = `configmaps "c2" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=2, limited: count/configmaps=2`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := maps.Delete(t.Context(), "c0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	shows(env, "q", map[string]string{"count/configmaps": "1"})

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "a", Port: 80}, {Name: "b", Port: 81}}}}
	if service, err = env.Client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service.Spec.Type = corev1.ServiceTypeNodePort
	_, err = env.Client.CoreV1().Services("default").Update(t.Context(), service, metav1.UpdateOptions{})
	want = `services "s" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=0, limited: services.nodeports=1`
	if !apierrors.IsForbidden(err) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
