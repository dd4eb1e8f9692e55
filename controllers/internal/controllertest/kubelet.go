package controllertest

import (
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/informer"
)

// Kubelet is scheduler and kubelet of a test: every pod is bound to node-1 and is at once running and ready, unless its
// image begins with "broken". Deleted pods go at once, unless held.
type Kubelet struct {
	t      testing.TB
	client kubernetes.Interface
	held   atomic.Bool
}

func newKubelet(t testing.TB, client kubernetes.Interface, factory *informer.Factory) *Kubelet {
	k := &Kubelet{t: t, client: client}
	pods := informer.ResourceOf[*corev1.Pod]()
	pods.DropManagedFields = true
	factory.Informer(pods).AddHandler(informer.Handler[*corev1.Pod]{
		OnAdd:    func(pod *corev1.Pod, _ bool) { k.sync(pod) },
		OnUpdate: func(_, pod *corev1.Pod) { k.sync(pod) },
	}.EventHandler())
	return k
}

// Hold keeps deleted pods terminating until Release.
func (k *Kubelet) Hold() { k.held.Store(true) }

// Release lets all terminating pods of a namespace go.
func (k *Kubelet) Release(namespace string) {
	k.held.Store(false)
	pods, err := k.client.CoreV1().Pods(namespace).List(k.t.Context(), metav1.ListOptions{})
	if err != nil {
		k.t.Error(err)
		return
	}
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp != nil {
			k.sync(&pods.Items[i])
		}
	}
}

func (k *Kubelet) sync(pod *corev1.Pod) {
	ctx := k.t.Context()
	pods := k.client.CoreV1().Pods(pod.Namespace)
	var err error
	switch {
	case pod.DeletionTimestamp != nil:
		if k.held.Load() {
			return
		}
		err = pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	case pod.Spec.NodeName == "":
		err = pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"},
		}, metav1.CreateOptions{})
	case pod.Status.Phase == corev1.PodPending && !strings.HasPrefix(pod.Spec.Containers[0].Image, "broken"):
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		})
		_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	}
	if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		k.t.Errorf("kubelet: pod %s: %v", pod.Name, err)
	}
}
