package apiservertest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver/apiservertest"
)

func TestStart(t *testing.T) {
	s := apiservertest.Start(t)
	c := s.Clientset()
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	created, err := c.CoreV1().ConfigMaps("ns").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "cm"}, Data: map[string]string{"a": "b"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 || list.Items[0].Data["a"] != "b" || list.Items[0].UID != created.UID {
		t.Errorf("got %v, want the created config map", list.Items)
	}
}
