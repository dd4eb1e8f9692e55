package env_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver/apiservertest"
	"vigil/informer"
	"vigil/internal/eventually"
	"vigil/kubelet/env"
)

func TestServices_Follow(t *testing.T) {
	server := apiservertest.Start(t)
	client := server.Clientset()
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	create := func(name, ip string) {
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: []corev1.ServicePort{{Port: 80}}}}
		if _, err := client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("early", "10.0.0.101")

	factory, err := informer.NewFactory(server.Client("node", "system:masters"), informer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- factory.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	services := env.NewServices()
	if err := services.Follow(ctx, factory); err != nil {
		t.Fatal(err)
	}
	has := func(name string) bool {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: corev1.PodSpec{EnableServiceLinks: new(true)}}
		vars, err := (&env.Maker{Services: services}).Variables(t.Context(), pod, &corev1.Container{})
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range vars {
			if v.Name == name {
				return true
			}
		}
		return false
	}
	if !has("EARLY_SERVICE_HOST") {
		t.Error("a service that was there first is missing")
	}
	create("late", "10.0.0.102")
	eventually.True(t, "a new service", func() bool { return has("LATE_SERVICE_HOST") })
	if err := client.CoreV1().Services("default").Delete(t.Context(), "early", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the end of a service", func() bool { return !has("EARLY_SERVICE_HOST") })
}
