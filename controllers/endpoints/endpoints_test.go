package endpoints_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"vigil/controllers/endpoints"
	"vigil/controllers/internal/controllertest"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

func TestEndpoints(t *testing.T) {
	env := controllertest.Start(t)
	c := endpoints.New(endpoints.Config{Client: env.Client, Informers: env.Informers, Recorder: env.Recorder, Logger: env.Logger})
	env.Run(c.Run)
	ctx, core := t.Context(), env.Client.CoreV1()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	patchStatus := func(pod, patch string) {
		t.Helper()
		must(core.Pods("default").Patch(ctx, pod, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"))
	}
	// want waits until the Endpoints of a Service show these addresses.
	want := func(service, ready, notReady string) {
		t.Helper()
		env.Eventually(func(ctx context.Context) error {
			ep, err := core.Endpoints("default").Get(ctx, service, metav1.GetOptions{})
			if err != nil {
				return err
			}
			var haveReady, haveNot string
			for _, s := range ep.Subsets {
				for _, a := range s.Addresses {
					haveReady += fmt.Sprintf("%s:%d", a.IP, s.Ports[0].Port)
				}
				for _, a := range s.NotReadyAddresses {
					haveNot += fmt.Sprintf("%s:%d", a.IP, s.Ports[0].Port)
				}
			}
			if haveReady != ready || haveNot != notReady {
				return fmt.Errorf("%s has ready %q, not ready %q; want %q, %q", service, haveReady, haveNot, ready, notReady)
			}
			return nil
		})
	}
	must(core.Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "web"},
			Ports:    []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}, metav1.CreateOptions{}))
	want("web", "", "")
	must(core.Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{
			Name: "c", Image: "i", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		}}},
	}, metav1.CreateOptions{}))
	patchStatus("p", `{"status":{"phase":"Running","podIP":"10.0.0.7","podIPs":[{"ip":"10.0.0.7"}]}}`)
	want("web", "", "10.0.0.7:8080")
	patchStatus("p", `{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`)
	want("web", "10.0.0.7:8080", "")
	ep, err := core.Endpoints("default").Get(ctx, "web", metav1.GetOptions{})
	must(ep, err)
	if at := ep.Annotations[corev1.EndpointsLastChangeTriggerTime]; at != "2026-01-02T03:04:05Z" {
		t.Errorf("last-change-trigger-time is %q, want when the pod became ready", at)
	}
	// Somebody spoils them.
	ep.Subsets = nil
	must(core.Endpoints("default").Update(ctx, ep, metav1.UpdateOptions{}))
	want("web", "10.0.0.7:8080", "")
	// The pod no longer matches.
	must(core.Pods("default").Patch(ctx, "p", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"other"}}}`), metav1.PatchOptions{}))
	want("web", "", "")
	must(core.Pods("default").Patch(ctx, "p", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"web"}}}`), metav1.PatchOptions{}))
	want("web", "10.0.0.7:8080", "")
	// It is being deleted.
	must(nil, core.Pods("default").Delete(ctx, "p", metav1.DeleteOptions{}))
	want("web", "", "")

	// Endpoints without a Service, or of one without a selector, are somebody else's.
	must(core.Endpoints("default").Create(ctx, &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: "alone"}}, metav1.CreateOptions{}))
	must(core.Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "manual"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))
	must(core.Endpoints("default").Create(ctx, &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "manual"},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "10.1.1.1"}}, Ports: []corev1.EndpointPort{{Port: 80}}}},
	}, metav1.CreateOptions{}))

	must(nil, core.Services("default").Delete(ctx, "web", metav1.DeleteOptions{}))
	env.Eventually(func(ctx context.Context) error {
		if _, err := core.Endpoints("default").Get(ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("endpoints without service: %v", err)
		}
		return nil
	})
	want("manual", "10.1.1.1:80", "")
	want("alone", "", "")
}
