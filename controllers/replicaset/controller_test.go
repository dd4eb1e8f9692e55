package replicaset

import (
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/controllers/internal/controllertest"
	"vigil/internal/eventually"
)

type fixture struct {
	*controllertest.Cluster
	controller *Controller
}

func start(t *testing.T) fixture {
	c := controllertest.New(t)
	controller := New(Config{Client: c.Client, Informers: c.Informers, Recorder: c.Recorder, Logger: c.Logger})
	c.Run(controller.Run)
	return fixture{c, controller}
}

func (f fixture) create(t testing.TB, namespace string, size int32) *appsv1.ReplicaSet {
	t.Helper()
	set := testSet(size)
	set.Spec.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}}
	set.Generation, set.Namespace, set.UID = 0, namespace, ""
	made, err := f.Client.AppsV1().ReplicaSets(namespace).Create(t.Context(), set, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (f fixture) scale(t *testing.T, namespace string, size string) {
	t.Helper()
	_, err := f.Client.AppsV1().ReplicaSets(namespace).Patch(t.Context(), "web", types.MergePatchType, []byte(`{"spec":{"replicas":`+size+`}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// pods returns the pods of a namespace that a selector matches.
func (f fixture) pods(t testing.TB, namespace, selector string) []corev1.Pod {
	t.Helper()
	list, err := f.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// settled waits until the status says that there are so many pods and all of them are available, and that there are no others.
func (f fixture) settled(t testing.TB, namespace string, size int32) *appsv1.ReplicaSet {
	t.Helper()
	var set *appsv1.ReplicaSet
	eventually.True(t, "replica set settles", func() bool {
		var err error
		if set, err = f.Client.AppsV1().ReplicaSets(namespace).Get(t.Context(), "web", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		s := set.Status
		return s.Replicas == size && s.ReadyReplicas == size && s.AvailableReplicas == size && *s.TerminatingReplicas == 0 && s.ObservedGeneration == set.Generation
	})
	if owned := f.owned(t, namespace, set.UID); len(owned) != int(size) {
		t.Errorf("there are %d pods, want %d", len(owned), size)
	}
	return set
}

func (f fixture) owned(t testing.TB, namespace string, uid types.UID) (pods []corev1.Pod) {
	t.Helper()
	for _, pod := range f.pods(t, namespace, "") {
		if owner := metav1.GetControllerOf(&pod); owner != nil && owner.UID == uid {
			pods = append(pods, pod)
		}
	}
	return pods
}

func TestController(t *testing.T) {
	f := start(t)

	t.Run("grows and shrinks", func(t *testing.T) {
		ns := f.Namespace(t, "sizes")
		f.create(t, ns, 3)
		f.settled(t, ns, 3)
		pod := f.pods(t, ns, "app=web")[0]
		f.HasEvent(t, ns, "web", "SuccessfulCreate", "Created pod: "+pod.Name)
		f.scale(t, ns, "9") // all events of an object within a burst of 25: more are dropped by their recorder
		f.settled(t, ns, 9)
		f.scale(t, ns, "1")
		f.settled(t, ns, 1)
		f.scale(t, ns, "0")
		f.settled(t, ns, 0)
		f.HasEvent(t, ns, "web", "SuccessfulDelete", "Deleted pod: "+pod.Name)
	})

	t.Run("replaces what goes", func(t *testing.T) {
		ns := f.Namespace(t, "replaces")
		f.create(t, ns, 2)
		set := f.settled(t, ns, 2)
		before := f.owned(t, ns, set.UID)
		if err := f.Client.CoreV1().Pods(ns).Delete(t.Context(), before[0].Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		failed := before[1]
		failed.Status.Phase = corev1.PodFailed
		if _, err := f.Client.CoreV1().Pods(ns).UpdateStatus(t.Context(), &failed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "both are replaced", func() bool {
			running := 0
			for _, pod := range f.owned(t, ns, set.UID) {
				if pod.Status.Phase == corev1.PodRunning && pod.Name != before[0].Name {
					running++
				}
			}
			return running == 2
		})
	})

	t.Run("adopts and lets go", func(t *testing.T) {
		ns := f.Namespace(t, "owners")
		orphan := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "image"}}},
		}
		if _, err := f.Client.CoreV1().Pods(ns).Create(t.Context(), orphan, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		f.create(t, ns, 2)
		set := f.settled(t, ns, 2)
		pod, err := f.Client.CoreV1().Pods(ns).Get(t.Context(), "orphan", metav1.GetOptions{})
		if err != nil || !metav1.IsControlledBy(pod, set) {
			t.Fatalf("not adopted: %v, %v", pod.OwnerReferences, err)
		}
		relabel := []byte(`{"metadata":{"labels":{"app":"other"}}}`)
		if _, err := f.Client.CoreV1().Pods(ns).Patch(t.Context(), "orphan", types.MergePatchType, relabel, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "the pod is let go and replaced", func() bool {
			released := f.pods(t, ns, "app=other")
			return len(released) == 1 && len(released[0].OwnerReferences) == 0 && len(f.owned(t, ns, set.UID)) == 2
		})
	})

	t.Run("an old pod is adopted when a set begins to match", func(t *testing.T) {
		ns := f.Namespace(t, "late")
		f.create(t, ns, 1)
		set := f.settled(t, ns, 1)
		late := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "late", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "broken"}}},
		}
		if _, err := f.Client.CoreV1().Pods(ns).Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "the surplus pod goes: the one that is not ready", func() bool {
			pods := f.pods(t, ns, "")
			return len(pods) == 1 && pods[0].Name != "late" && metav1.IsControlledBy(&pods[0], set)
		})
	})

	t.Run("says why creating fails", func(t *testing.T) {
		ns := f.Namespace(t, "fails")
		refuse := func(r *http.Request) bool {
			return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/"+ns+"/pods")
		}
		f.Refuse.Store(&refuse)
		f.create(t, ns, 3)
		f.HasEvent(t, ns, "web", "FailedCreate", "Error creating: refused")
		eventually.True(t, "condition ReplicaFailure", func() bool {
			set, err := f.Client.AppsV1().ReplicaSets(ns).Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c := set.Status.Conditions
			return len(c) == 1 && c[0].Type == appsv1.ReplicaSetReplicaFailure && c[0].Reason == "FailedCreate" && c[0].Message == "refused"
		})
		f.Refuse.Store(nil)
		if set := f.settled(t, ns, 3); len(set.Status.Conditions) != 0 {
			t.Errorf("the condition stays: %+v", set.Status.Conditions)
		}
	})

	t.Run("ends with its set", func(t *testing.T) {
		ns := f.Namespace(t, "ends")
		f.create(t, ns, 1)
		set := f.settled(t, ns, 1)
		background := metav1.DeletePropagationBackground
		if err := f.Client.AppsV1().ReplicaSets(ns).Delete(t.Context(), "web", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
			t.Fatal(err)
		}
		eventually.True(t, "nothing is remembered of the set", func() bool {
			f.controller.mu.Lock()
			defer f.controller.mu.Unlock()
			_, kept := f.controller.deleted[set.UID]
			return !kept && f.controller.wrote.Passed(set.UID, "0")
		})
	})
}
