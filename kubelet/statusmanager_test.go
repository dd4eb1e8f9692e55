package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/rest"
)

// statusWriter answers patches of a pod's status and keeps them.
type statusWriter struct {
	patches []string
	keeps   bool // its pod's status stays as it is
}

func (s *statusWriter) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.patches = append(s.patches, string(body))
	pod := fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"default","uid":"1","resourceVersion":"%d"},"status":`, 1+len(s.patches))
	_, status, _ := strings.Cut(string(body), `"status":`)
	if s.keeps {
		status = "{}}"
	}
	return &http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 2, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(pod + status)), ContentLength: -1,
	}, nil
}

// What a pod is shown as while it is started is written when starting takes long.
func TestStatusManager_Arrived(t *testing.T) {
	tests := []struct {
		name    string
		running time.Duration // after the arrival
		want    []string      // phases written
	}{
		{"at once", 0, []string{"Running"}},
		{"soon", arrivalDelay / 2, []string{"Running"}},
		{"late", 2 * arrivalDelay, []string{"Pending", "Running"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &statusWriter{}
				client, err := newClients(&rest.Config{Host: "http://server", Transport: server})
				if err != nil {
					t.Fatal(err)
				}
				var running group
				m := newStatusManager(client, slog.New(slog.DiscardHandler), &running)
				m.begin(t.Context())
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "1", ResourceVersion: "1"}}
				m.arrived(pod, corev1.PodStatus{Phase: corev1.PodPending})
				time.Sleep(tt.running)
				m.set(pod, corev1.PodStatus{Phase: corev1.PodRunning})
				if !m.written(t.Context(), pod.UID) {
					t.Error("not written")
				}
				time.Sleep(2 * arrivalDelay)
				running.Wait()
				if len(server.patches) != len(tt.want) {
					t.Fatalf("written: %q, want phases %v", server.patches, tt.want)
				}
				for i, phase := range tt.want {
					if !strings.Contains(server.patches[i], `"phase":"`+phase+`"`) {
						t.Errorf("write %d is %s, want phase %s", i, server.patches[i], phase)
					}
				}
			})
		})
	}
}

// A status of which the API server keeps less than was sent is not sent again and again.
func TestStatusManager_NotAllIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &statusWriter{keeps: true}
		client, err := newClients(&rest.Config{Host: "http://server", Transport: server})
		if err != nil {
			t.Fatal(err)
		}
		var running group
		m := newStatusManager(client, slog.New(slog.DiscardHandler), &running)
		m.begin(t.Context())
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "1", ResourceVersion: "1"}}
		for range 2 {
			m.set(pod, corev1.PodStatus{Phase: corev1.PodRunning})
			m.written(t.Context(), pod.UID)
		}
		running.Wait()
		if len(server.patches) != 2 {
			t.Errorf("set twice, written %d times", len(server.patches))
		}
	})
}

// runningStatus is that of a pod with one container that runs.
func runningStatus() corev1.PodStatus {
	now := metav1.NewTime(time.Unix(1_800_000_000, 0))
	status := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, HostIP: "10.0.0.1", HostIPs: []corev1.HostIP{{IP: "10.0.0.1"}}, PodIP: "10.244.0.2", PodIPs: []corev1.PodIP{{IP: "10.244.0.2"}},
		QOSClass: corev1.PodQOSBestEffort, ObservedGeneration: 1,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", Ready: true, Image: "image", ImageID: "id", ContainerID: "simulated://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now, ObservedGeneration: 1})
	}
	return status
}

// The patch of a status does what the patch of two JSON documents does.
func TestStatusPatch(t *testing.T) {
	ended := runningStatus()
	ended.Phase, ended.PodIP, ended.PodIPs = corev1.PodSucceeded, "", nil
	ended.Conditions = append(ended.Conditions[1:3:3], corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue})
	ended.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}}
	scheduled := corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort, Conditions: runningStatus().Conditions[4:]}
	restarted, initialized := runningStatus(), runningStatus()
	restarted.ContainerStatuses[0].RestartCount++
	initialized.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i"}}
	tests := []struct {
		name      string
		have, set corev1.PodStatus
	}{
		{"starts", scheduled, runningStatus()},
		{"ends", runningStatus(), ended},
		{"stays", runningStatus(), runningStatus()},
		{"begins anew", ended, scheduled},
		{"only a container changes", runningStatus(), restarted},
		{"only an init container changes", runningStatus(), initialized},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Status: tt.have}
			got, err := statusPatch(pod, tt.set)
			if err != nil {
				t.Fatal(err)
			}
			before, err := json.Marshal(corev1.Pod{Status: tt.have})
			if err != nil {
				t.Fatal(err)
			}
			after, err := json.Marshal(corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Status: tt.set})
			if err != nil {
				t.Fatal(err)
			}
			want, err := strategicpatch.CreateTwoWayMergePatch(before, after, corev1.Pod{})
			if err != nil {
				t.Fatal(err)
			}
			var wantFields, gotFields any // the order of fields does not matter
			if err := errors.Join(json.Unmarshal(want, &wantFields), json.Unmarshal(got, &gotFields)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wantFields, gotFields); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
		})
	}
}

func BenchmarkStatusPatch(b *testing.B) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort}}
	want := runningStatus()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := statusPatch(pod, want); err != nil {
			b.Fatal(err)
		}
	}
}

// A record keeps the status of its pod, and not the rest.
func TestStatusManager_Keeps(t *testing.T) {
	var running group
	m := newStatusManager(nil, slog.New(slog.DiscardHandler), &running)
	decoded := func(version string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", UID: "1", ResourceVersion: version},
			Spec:       corev1.PodSpec{NodeName: "n"}, Status: runningStatus(),
		}
	}
	var left []weak.Pointer[corev1.Pod]
	for _, version := range []string{"1", "2", "3"} {
		pod := decoded(version)
		m.set(pod, runningStatus())
		if !m.current(pod) {
			t.Errorf("version %s is not as wanted", version)
		}
		left = append(left, weak.Make(pod))
	}
	runtime.GC()
	for i, pod := range left {
		if pod.Value() != nil {
			t.Errorf("the object of version %d is kept", i+1)
		}
	}
	again := decoded("3")
	if !m.current(again) {
		t.Error("the same version is not as wanted")
	}
	if r := m.pods["1"]; r.pod.version != "3" || &r.pod.status.Conditions[0] != &again.Status.Conditions[0] {
		t.Error("what a write answered with is kept beside what the watch has brought")
	}
	if older := decoded("2"); !m.current(older) || m.pods["1"].pod.version != "3" || m.latest(older).Spec.NodeName != "n" {
		t.Error("an older version is taken note of")
	}
}
