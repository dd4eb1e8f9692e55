package env

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func testService(namespace, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

func links(t *testing.T, s *Services, wanted bool, env ...corev1.EnvVar) string {
	t.Helper()
	pod := testPod(corev1.Container{Env: env})
	pod.Spec.EnableServiceLinks = &wanted
	vars, err := (&Maker{Services: s}).Variables(t.Context(), pod, &pod.Spec.Containers[0])
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(show(vars), " ", "\n")
}

const apiServer = `KUBERNETES_PORT=tcp://10.96.0.1:443
KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443
KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1
KUBERNETES_PORT_443_TCP_PORT=443
KUBERNETES_PORT_443_TCP_PROTO=tcp
KUBERNETES_SERVICE_HOST=10.96.0.1
KUBERNETES_SERVICE_PORT=443
KUBERNETES_SERVICE_PORT_HTTPS=443`

func testServices() *Services {
	s := NewServices()
	s.Set(testService("default", "kubernetes", "10.96.0.1", corev1.ServicePort{Name: "https", Port: 443}))
	s.Set(testService("default", "elsewhere", "10.96.0.2", corev1.ServicePort{Port: 1}))
	s.Synced()
	return s
}

func TestServices(t *testing.T) {
	s := testServices()
	if diff := cmp.Diff(apiServer, links(t, s, false)); diff != "" {
		t.Errorf("without links (-want +got):\n%s", diff)
	}
	s.Set(testService("ns", "my-db.2", "fd00::5", corev1.ServicePort{Port: 5432, Protocol: "TCP"}, corev1.ServicePort{Name: "stat-s", Port: 99, Protocol: "UDP"}))
	s.Set(testService("ns", "headless", corev1.ClusterIPNone, corev1.ServicePort{Port: 5432}))
	s.Set(testService("ns", "external", ""))
	want := `MY_DB_2_PORT=tcp://[fd00::5]:5432
MY_DB_2_PORT_5432_TCP=tcp://[fd00::5]:5432
MY_DB_2_PORT_5432_TCP_ADDR=fd00::5
MY_DB_2_PORT_5432_TCP_PORT=5432
MY_DB_2_PORT_5432_TCP_PROTO=tcp
MY_DB_2_PORT_99_UDP=udp://[fd00::5]:99
MY_DB_2_PORT_99_UDP_ADDR=fd00::5
MY_DB_2_PORT_99_UDP_PORT=99
MY_DB_2_PORT_99_UDP_PROTO=udp
MY_DB_2_SERVICE_HOST=fd00::5
MY_DB_2_SERVICE_PORT=5432
MY_DB_2_SERVICE_PORT_STAT_S=99
` + apiServer
	if diff := cmp.Diff(want, links(t, s, true)); diff != "" {
		t.Errorf("with links (-want +got):\n%s", diff)
	}
	s.Delete("ns", "my-db.2")
	if diff := cmp.Diff(apiServer, links(t, s, true)); diff != "" {
		t.Errorf("after a delete (-want +got):\n%s", diff)
	}
}

func TestServices_OwnNamesWin(t *testing.T) {
	s := testServices()
	got := links(t, s, false, corev1.EnvVar{Name: "X", Value: "$(KUBERNETES_SERVICE_HOST)"}, corev1.EnvVar{Name: "KUBERNETES_SERVICE_HOST", Value: "mine"})
	if !strings.HasPrefix(got, "X=10.96.0.1\nKUBERNETES_SERVICE_HOST=mine\n") || strings.Count(got, "KUBERNETES_SERVICE_HOST") != 1 {
		t.Errorf("got\n%s", got)
	}
	s.Set(testService("ns", "kubernetes", "10.96.9.9", corev1.ServicePort{Port: 80}))
	if got := links(t, s, true); strings.Contains(got, "10.96.0.1") || !strings.Contains(got, "KUBERNETES_SERVICE_HOST=10.96.9.9") {
		t.Errorf("a service kubernetes of the namespace:\n%s", got)
	}
}

func TestServices_Changes(t *testing.T) {
	s := testServices()
	s.Set(testService("ns", "a", "10.96.0.3", corev1.ServicePort{Port: 1}))
	before := links(t, s, true)
	s.Set(testService("ns", "a", "10.96.0.4", corev1.ServicePort{Port: 1}))
	if after := links(t, s, true); after == before || !strings.Contains(after, "A_SERVICE_HOST=10.96.0.4") {
		t.Errorf("after a change:\n%s", after)
	}
	s.Set(testService("ns", "a", corev1.ClusterIPNone, corev1.ServicePort{Port: 1}))
	if diff := cmp.Diff(apiServer, links(t, s, true)); diff != "" {
		t.Errorf("after the address went (-want +got):\n%s", diff)
	}
}

func TestServices_NotRead(t *testing.T) {
	pod := testPod(corev1.Container{})
	maker := &Maker{Services: NewServices()}
	_, err := maker.Variables(t.Context(), pod, &pod.Spec.Containers[0])
	if err == nil || err.Error() != "services have not yet been read at least once, cannot construct envvars" {
		t.Errorf("got %v", err)
	}
	pod.Annotations["kubernetes.io/config.source"] = "file"
	if _, err := maker.Variables(t.Context(), pod, &pod.Spec.Containers[0]); err != nil {
		t.Errorf("a static pod: %v", err)
	}
}

// BenchmarkVariables is the environment of a container in a namespace with that many services.
func BenchmarkVariables(b *testing.B) {
	for _, count := range []int{10, 1000} {
		b.Run(fmt.Sprintf("services=%d", count), func(b *testing.B) {
			s := NewServices()
			s.Synced()
			for i := range count {
				s.Set(testService("ns", fmt.Sprintf("service-%d", i), "10.96.0.3", corev1.ServicePort{Name: "http", Port: 80}))
			}
			pod := testPod(corev1.Container{Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)"}}})
			pod.Spec.EnableServiceLinks = new(true)
			maker := &Maker{Services: s}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := maker.Variables(b.Context(), pod, &pod.Spec.Containers[0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
