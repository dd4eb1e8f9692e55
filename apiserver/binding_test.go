package apiserver_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/apiservertest"
)

// TestBindings binds a pod by the path that names none.
func TestBindings(t *testing.T) {
	s := apiservertest.Start(t)
	client, err := kubernetes.NewForConfig(s.Client("admin", "system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bound"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	if _, err := client.CoreV1().Pods("bound").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	if err := client.CoreV1().RESTClient().Post().Namespace("bound").Resource("bindings").Body(binding).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	if pod, err = client.CoreV1().Pods("bound").Get(t.Context(), "p", metav1.GetOptions{}); err != nil || pod.Spec.NodeName != "n" {
		t.Errorf("the pod is on %q, %v", pod.Spec.NodeName, err)
	}
}
