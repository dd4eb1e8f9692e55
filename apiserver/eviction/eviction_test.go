package eviction_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/eviction"
	"vigil/apiserver/write"
	"vigil/kinds"
)

// world is a namespace of a server that evicts.
type world struct {
	*testing.T
	clients   *kubernetes.Clientset
	namespace string
}

func start(t *testing.T) *apiservertest.Server {
	var evictor atomic.Pointer[eviction.Evictor] // made after the server that uses it
	s := apiservertest.Start(t, func(c *apiserver.Config) {
		c.WriteHooks = map[schema.GroupResource]write.Hook{{Resource: "pods"}: {Post: map[string]write.PostFunc{
			"eviction": func(ctx context.Context, r *write.Request, obj kinds.Object, body runtime.Object) (runtime.Object, error) {
				return evictor.Load().Post(ctx, r, obj, body)
			},
		}}}
	})
	evictor.Store(eviction.New(eviction.Config{Kinds: s.Table, Writer: s.Writer(), Cache: s.Cache, Prefix: s.Store.Prefix()}))
	return s
}

func newWorld(t *testing.T, s *apiservertest.Server, namespace string) *world {
	t.Helper()
	w := &world{t, s.Clientset(), namespace}
	_, err := w.clients.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	w.must(err)
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// pod makes a pod on a node, in a phase and ready or not.
func (w *world) pod(name string, phase corev1.PodPhase, ready corev1.ConditionStatus) *corev1.Pod {
	w.Helper()
	pods := w.clients.CoreV1().Pods(w.namespace)
	pod, err := pods.Create(w.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	w.must(err)
	pod.Status.Phase = phase
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
	pod, err = pods.UpdateStatus(w.Context(), pod, metav1.UpdateOptions{})
	w.must(err)
	return pod
}

func (w *world) running(name string) *corev1.Pod {
	w.Helper()
	return w.pod(name, corev1.PodRunning, corev1.ConditionTrue)
}

// budget makes a budget of all pods whose status is as given, observed unless that says otherwise.
func (w *world) budget(name string, status policyv1.PodDisruptionBudgetStatus, edit func(*policyv1.PodDisruptionBudgetSpec)) {
	w.Helper()
	budgets := w.clients.PolicyV1().PodDisruptionBudgets(w.namespace)
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}
	if edit != nil {
		edit(&b.Spec)
	}
	b, err := budgets.Create(w.Context(), b, metav1.CreateOptions{})
	w.must(err)
	if status.ObservedGeneration == 0 {
		status.ObservedGeneration = b.Generation
	}
	b.Status = status
	_, err = budgets.UpdateStatus(w.Context(), b, metav1.UpdateOptions{})
	w.must(err)
}

// evict asks once: a client would wait as long as a refusal says, and ask again.
func (w *world) evict(name string, opts *metav1.DeleteOptions) error {
	return w.clients.CoreV1().RESTClient().Post().Namespace(w.namespace).Resource("pods").Name(name).SubResource("eviction").
		Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}, DeleteOptions: opts}).
		MaxRetries(0).Do(w.Context()).Error()
}

// evicted checks that the pod is on its way out, or gone when it ran nowhere.
func (w *world) evicted(name string) {
	w.Helper()
	pod, err := w.clients.CoreV1().Pods(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	w.must(err)
	if pod.DeletionTimestamp == nil {
		w.Errorf("pod %s is not being deleted", name)
	}
	for i, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			if i != len(pod.Status.Conditions)-1 {
				w.Errorf("conditions %+v: a new one must be the last", pod.Status.Conditions)
			}
			c.LastTransitionTime, c.ObservedGeneration = metav1.Time{}, 0
			want := corev1.PodCondition{Type: corev1.DisruptionTarget, Status: "True", Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting"}
			if diff := cmp.Diff(want, c); diff != "" {
				w.Errorf("condition (-want +got):\n%s", diff)
			}
			return
		}
	}
	w.Errorf("pod %s does not say why it goes", name)
}

func (w *world) stays(name string) {
	w.Helper()
	pod, err := w.clients.CoreV1().Pods(w.namespace).Get(w.Context(), name, metav1.GetOptions{})
	w.must(err)
	if pod.DeletionTimestamp != nil {
		w.Errorf("pod %s is being deleted", name)
	}
}

// refusal checks the answer to an eviction that is not allowed.
func (w *world) refusal(err error, code int32, message string, after int32, causes ...metav1.StatusCause) {
	w.Helper()
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		w.Fatalf("got %v", err)
	}
	s := status.ErrStatus
	if s.Code != code || s.Message != message {
		w.Errorf("%d %s\nwant %d %s", s.Code, s.Message, code, message)
	}
	if after != 0 && s.Details.RetryAfterSeconds != after {
		w.Errorf("retry after %d, want %d", s.Details.RetryAfterSeconds, after)
	}
	if len(causes) > 0 {
		if diff := cmp.Diff(causes, s.Details.Causes); diff != "" {
			w.Errorf("causes (-want +got):\n%s", diff)
		}
	}
}

const violates = "Cannot evict pod as it would violate the pod's disruption budget."

func TestEvict(t *testing.T) {
	s := start(t)
	type status = policyv1.PodDisruptionBudgetStatus
	n := 0
	world := func(t *testing.T) *world {
		n++
		return newWorld(t, s, fmt.Sprintf("ns-%d", n))
	}

	t.Run("no budget", func(t *testing.T) {
		w := world(t)
		w.running("p")
		w.must(w.evict("p", nil))
		w.evicted("p")
	})
	t.Run("charged", func(t *testing.T) {
		w := world(t)
		w.running("p")
		w.budget("b", status{DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1}, nil)
		w.must(w.evict("p", nil))
		w.evicted("p")
		b, err := w.clients.PolicyV1().PodDisruptionBudgets(w.namespace).Get(t.Context(), "b", metav1.GetOptions{})
		w.must(err)
		if _, noted := b.Status.DisruptedPods["p"]; b.Status.DisruptionsAllowed != 0 || !noted {
			t.Errorf("status %+v", b.Status)
		}
		if c := b.Status.Conditions; len(c) != 1 || c[0].Type != "DisruptionAllowed" || c[0].Status != "False" || c[0].Reason != "InsufficientPods" {
			t.Errorf("conditions %+v", c)
		}
	})
	t.Run("refused", func(t *testing.T) {
		w := world(t)
		w.running("p")
		w.budget("b", status{CurrentHealthy: 1, DesiredHealthy: 2}, nil)
		w.refusal(w.evict("p", nil), http.StatusTooManyRequests, violates, 0,
			metav1.StatusCause{Type: "DisruptionBudget", Message: "The disruption budget b needs 2 healthy pods and has 1 currently"})
		w.stays("p")
	})
	t.Run("not observed", func(t *testing.T) {
		w := world(t)
		w.running("p")
		_, err := w.clients.PolicyV1().PodDisruptionBudgets(w.namespace).Create(t.Context(), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}},
		}, metav1.CreateOptions{})
		w.must(err)
		w.refusal(w.evict("p", nil), http.StatusTooManyRequests, violates, 10,
			metav1.StatusCause{Type: "DisruptionBudget", Message: "The disruption budget b is still being processed by the server."})
		w.stays("p")
	})
	t.Run("two budgets", func(t *testing.T) {
		w := world(t)
		w.running("p")
		w.budget("a", status{DisruptionsAllowed: 1}, nil)
		w.budget("b", status{DisruptionsAllowed: 1}, nil)
		w.refusal(w.evict("p", nil), http.StatusInternalServerError, "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", 0)
		w.stays("p")
	})
	t.Run("budget of others", func(t *testing.T) {
		w := world(t)
		w.running("p")
		w.budget("b", status{}, func(s *policyv1.PodDisruptionBudgetSpec) { s.Selector = nil })
		w.must(w.evict("p", nil))
		w.evicted("p")
	})
	t.Run("pods that do not run", func(t *testing.T) {
		w := world(t)
		w.budget("b", status{CurrentHealthy: 1, DesiredHealthy: 2}, nil)
		for name, phase := range map[string]corev1.PodPhase{"pending": corev1.PodPending, "done": corev1.PodSucceeded, "failed": corev1.PodFailed} {
			w.pod(name, phase, corev1.ConditionFalse)
			w.must(w.evict(name, nil))
			w.evicted(name)
		}
	})
	t.Run("unready pods", func(t *testing.T) {
		w := world(t)
		w.pod("p", corev1.PodRunning, corev1.ConditionFalse)
		w.budget("b", status{CurrentHealthy: 1, DesiredHealthy: 2}, nil)
		w.refusal(w.evict("p", nil), http.StatusTooManyRequests, violates, 0)
		w = world(t)
		w.pod("p", corev1.PodRunning, corev1.ConditionFalse)
		w.budget("b", status{CurrentHealthy: 2, DesiredHealthy: 2}, nil)
		w.must(w.evict("p", nil))
		w.evicted("p")
		w = world(t)
		w.pod("p", corev1.PodRunning, corev1.ConditionFalse)
		w.budget("b", status{CurrentHealthy: 1, DesiredHealthy: 2}, func(s *policyv1.PodDisruptionBudgetSpec) {
			s.UnhealthyPodEvictionPolicy = ptr.To(policyv1.AlwaysAllow)
		})
		w.must(w.evict("p", nil))
		w.evicted("p")
	})
	t.Run("dry run", func(t *testing.T) {
		w := world(t)
		w.running("p")
		w.budget("b", status{DisruptionsAllowed: 1}, nil)
		w.must(w.evict("p", &metav1.DeleteOptions{DryRun: []string{"All"}}))
		w.stays("p")
		b, err := w.clients.PolicyV1().PodDisruptionBudgets(w.namespace).Get(t.Context(), "b", metav1.GetOptions{})
		w.must(err)
		if b.Status.DisruptionsAllowed != 1 || len(b.Status.DisruptedPods) != 0 {
			t.Errorf("status %+v", b.Status)
		}
	})
	t.Run("preconditions", func(t *testing.T) {
		w := world(t)
		pod := w.running("p")
		err := w.evict("p", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}})
		w.refusal(err, http.StatusConflict, fmt.Sprintf(`Operation cannot be fulfilled on Pod "p": the UID in the precondition (other) does not match the UID in record (%s). The object might have been deleted and then recreated`, pod.UID), 0)
		err = w.evict("p", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: ptr.To("1")}})
		w.refusal(err, http.StatusConflict, fmt.Sprintf(`Operation cannot be fulfilled on Pod "p": the ResourceVersion in the precondition (1) does not match the ResourceVersion in record (%s). The object might have been modified`, pod.ResourceVersion), 0)
		w.stays("p")
		w.must(w.evict("p", &metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](7), Preconditions: &metav1.Preconditions{ResourceVersion: &pod.ResourceVersion}}))
		w.evicted("p")
	})
	t.Run("no pod", func(t *testing.T) {
		w := world(t)
		w.refusal(w.evict("p", nil), http.StatusNotFound, `pods "p" not found`, 0)
	})
	t.Run("another name", func(t *testing.T) {
		w := world(t)
		w.running("p")
		err := w.clients.CoreV1().RESTClient().Post().Namespace(w.namespace).Resource("pods").Name("p").SubResource("eviction").
			Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "q"}}).Do(t.Context()).Error()
		w.refusal(err, http.StatusBadRequest, "name in URL does not match name in Eviction object", 0)
	})
}

// However many are evicted at once, no more go than the budget allows.
func TestEvict_Concurrent(t *testing.T) {
	w := newWorld(t, start(t), "ns")
	const pods, allowed = 12, 5
	for i := range pods {
		w.running(fmt.Sprint("p", i))
	}
	w.budget("b", policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed, CurrentHealthy: pods, DesiredHealthy: pods - allowed}, nil)
	var gone atomic.Int32
	var group sync.WaitGroup
	for i := range pods {
		group.Go(func() {
			switch err := w.evict(fmt.Sprint("p", i), nil); {
			case err == nil:
				gone.Add(1)
			case !apierrors.IsTooManyRequests(err):
				t.Errorf("p%d: %v", i, err)
			}
		})
	}
	group.Wait()
	b, err := w.clients.PolicyV1().PodDisruptionBudgets("ns").Get(t.Context(), "b", metav1.GetOptions{})
	w.must(err)
	if gone.Load() != allowed || b.Status.DisruptionsAllowed != 0 || len(b.Status.DisruptedPods) != allowed {
		t.Errorf("%d evicted, status %+v", gone.Load(), b.Status)
	}
}
