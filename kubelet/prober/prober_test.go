package prober

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/probe"
)

// probing is a prober under a clock that moves by itself, whose questions are answered by answer.
type probing struct {
	*Prober
	t      *testing.T
	began  time.Time
	answer func(q Question) (probe.Result, string, error)

	mu      sync.Mutex
	asked   []string // "Readiness 25ms", since the container began
	events  []string
	changes int
}

// story runs tell with a prober of its own.
func story(t *testing.T, tell func(p *probing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &probing{t: t, began: time.Now()}
		p.Prober = New(Config{Ask: func(_ context.Context, q Question) (probe.Result, string, error) {
			p.mu.Lock()
			p.asked = append(p.asked, fmt.Sprint(q.kind, " ", time.Since(p.began)))
			answer := p.answer
			p.mu.Unlock()
			return answer(q)
		}, Event: func(_ *corev1.Pod, c *corev1.Container, reason, message string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.events = append(p.events, c.Name+" "+reason+" "+message)
		}, Changed: func(types.UID) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.changes++
		}})
		p.always(probe.Success, "")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			p.Run(ctx)
			close(done)
		}()
		tell(p)
		cancel()
		<-done
	})
}

func (p *probing) always(result probe.Result, output string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = func(Question) (probe.Result, string, error) { return result, output, nil }
}

// pass lets time pass.
func (p *probing) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (p *probing) wants(what string, got, want any) {
	p.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("after %v, %s (-want +got):\n%s", time.Since(p.began), what, diff)
	}
}

// questions returns what was asked since the last call.
func (p *probing) questions() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := strings.Join(p.asked, ", ")
	p.asked = nil
	return asked
}

func probedTestPod(startup, readiness, liveness *corev1.Probe) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "1-2"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", StartupProbe: startup, ReadinessProbe: readiness, LivenessProbe: liveness}}},
	}
}

func every(seconds int32, change func(*corev1.Probe)) *corev1.Probe {
	spec := &corev1.Probe{PeriodSeconds: seconds, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3}
	if change != nil {
		change(spec)
	}
	return spec
}

// runs says that the container runs, under this ID since the story began.
func (p *probing) runs(id string) map[string]Running {
	return map[string]Running{"c": {ID: id, Started: p.began}}
}

var good = Health{Started: true, Ready: true}

func TestProber_ReadySoon(t *testing.T) {
	story(t, func(p *probing) {
		pod, now := probedTestPod(nil, every(10, nil), nil), p.runs("1")
		p.always(probe.Failure, "connection refused")
		p.wants("health", p.Look(pod, now, "", false)["1"], Health{Started: true})
		p.pass(120 * time.Millisecond)
		p.always(probe.Success, "")
		p.pass(200 * time.Millisecond)
		p.wants("health", p.Look(pod, now, "", false)["1"], good)
		p.wants("questions", p.questions(), "Readiness 25ms, Readiness 50ms, Readiness 100ms, Readiness 200ms")
		p.wants("events", p.events, []string(nil))
		p.wants("changes", p.changes, 1)
		p.pass(20 * time.Second)
		p.wants("questions", p.questions(), "Readiness 10.2s, Readiness 20.2s")
	})
}

func TestProber_NotReady(t *testing.T) {
	story(t, func(p *probing) {
		pod, now := probedTestPod(nil, every(2, func(s *corev1.Probe) { s.SuccessThreshold = 2 }), nil), p.runs("1")
		p.Look(pod, now, "", false)
		p.pass(time.Second)
		p.wants("health after one success of two", p.Look(pod, now, "", false)["1"], Health{Started: true})
		p.pass(2 * time.Second)
		p.wants("health after two", p.Look(pod, now, "", false)["1"], good)
		p.always(probe.Failure, "HTTP probe failed with statuscode: 503")
		p.pass(4 * time.Second)
		p.wants("health after two failures of three", p.Look(pod, now, "", false)["1"], good)
		p.pass(2 * time.Second)
		p.wants("health after three", p.Look(pod, now, "", false)["1"], Health{Started: true})
		failed := "c Unhealthy Readiness probe failed: HTTP probe failed with statuscode: 503"
		p.wants("events", p.events, []string{failed, failed, failed})
		p.wants("changes", p.changes, 2)
	})
}

func TestProber_Liveness(t *testing.T) {
	story(t, func(p *probing) {
		grace := new(int64(7))
		pod := probedTestPod(nil, nil, every(5, func(s *corev1.Probe) { s.FailureThreshold, s.TerminationGracePeriodSeconds = 2, grace }))
		p.wants("health", p.Look(pod, p.runs("1"), "", false)["1"], good)
		p.always(probe.Failure, "dead")
		p.pass(2 * time.Second)
		p.wants("health after one failure", p.Look(pod, p.runs("1"), "", false)["1"], good)
		p.pass(5 * time.Second)
		p.wants("health after two", p.Look(pod, p.runs("1"), "", false)["1"], Health{Started: true, Ready: true, Failed: "failed liveness probe", Grace: grace})
		p.pass(time.Minute)
		p.wants("questions", p.questions(), "Liveness 1s, Liveness 6s")
		p.wants("events", p.events, []string{"c Unhealthy Liveness probe failed: dead", "c Unhealthy Liveness probe failed: dead"})

		p.always(probe.Success, "")
		p.wants("health of the next container", p.Look(pod, p.runs("2"), "", false)["2"], good)
		p.pass(time.Second)
		p.wants("questions", p.questions(), "Liveness 1m7s")
	})
}

func TestProber_Startup(t *testing.T) {
	story(t, func(p *probing) {
		pod := probedTestPod(every(10, nil), every(10, nil), every(10, func(s *corev1.Probe) { s.InitialDelaySeconds = 30 }))
		p.always(probe.Failure, "no")
		p.wants("health", p.Look(pod, p.runs("1"), "", false)["1"], Health{})
		p.pass(9 * time.Second)
		p.questions()
		p.always(probe.Success, "")
		p.pass(4 * time.Second)
		p.wants("health", p.Look(pod, p.runs("1"), "", false)["1"], good)
		p.wants("questions", p.questions(), "Startup 11s, Readiness 11s")
		p.pass(20 * time.Second)
		p.wants("questions", p.questions(), "Readiness 21s, Liveness 30s, Readiness 31s")
	})
}

func TestProber_StartupFails(t *testing.T) {
	story(t, func(p *probing) {
		pod := probedTestPod(every(1, nil), every(1, nil), every(1, nil))
		p.always(probe.Failure, "no")
		p.Look(pod, p.runs("1"), "", false)
		p.pass(5 * time.Second)
		p.wants("health", p.Look(pod, p.runs("1"), "", false)["1"], Health{Failed: "failed startup probe"})
		if asked := p.questions(); strings.Contains(asked, "Readiness") || strings.Contains(asked, "Liveness") {
			t.Errorf("asked before it had started: %s", asked)
		}
		p.wants("events", len(p.events), 3)
	})
}

func TestProber_InitialDelay(t *testing.T) {
	story(t, func(p *probing) {
		pod := probedTestPod(nil, every(10, func(s *corev1.Probe) { s.InitialDelaySeconds = 5 }), nil)
		p.always(probe.Failure, "no")
		p.Look(pod, p.runs("1"), "", false)
		p.pass(16 * time.Second)
		p.wants("questions", p.questions(), "Readiness 5s, Readiness 15s")
		p.wants("events", len(p.events), 2)
	})
}

// A kubelet that starts anew believes what was reported of containers that run on, and asks them one after another.
func TestProber_Adopts(t *testing.T) {
	story(t, func(p *probing) {
		pod := probedTestPod(every(10, nil), every(10, nil), every(10, nil))
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", ContainerID: "1", Started: new(true), Ready: true}}
		p.wants("health", p.Look(pod, p.runs("1"), "", false)["1"], good)
		p.pass(10 * time.Second)
		asked := strings.Split(p.questions(), ", ")
		slices.Sort(asked)
		if len(asked) != 2 || !strings.HasPrefix(asked[0], "Liveness ") || !strings.HasPrefix(asked[1], "Readiness ") {
			t.Errorf("asked %q", asked)
		}
		p.wants("health", p.Look(pod, p.runs("1"), "", false)["1"], good)
		p.wants("changes", p.changes, 0)
		p.wants("health of another container", p.Look(pod, p.runs("2"), "", false)["2"], Health{})
	})
}

func TestProber_Hangs(t *testing.T) {
	story(t, func(p *probing) {
		pod := probedTestPod(nil, every(1, nil), every(1, nil))
		p.answer = func(q Question) (probe.Result, string, error) {
			if q.kind == readinessProbe {
				time.Sleep(2500 * time.Millisecond)
			}
			return probe.Success, "", nil
		}
		p.Look(pod, p.runs("1"), "", false)
		p.pass(4 * time.Second)
		p.wants("questions", p.questions(), "Readiness 25ms, Liveness 1s, Liveness 2s, Readiness 2.525s, Liveness 3s, Liveness 4s")
	})
}

func TestProber_Ends(t *testing.T) {
	story(t, func(p *probing) {
		pod := probedTestPod(nil, every(10, nil), every(10, nil))
		p.Look(pod, p.runs("1"), "", false)
		p.pass(5 * time.Second)
		p.questions()
		p.always(probe.Failure, "going")
		p.wants("health", p.Look(pod, p.runs("1"), "", true)["1"], good)
		p.pass(time.Minute)
		p.wants("health of a pod that ends", p.Look(pod, p.runs("1"), "", true)["1"], Health{Started: true})
		if asked := p.questions(); strings.Contains(asked, "Liveness") {
			t.Errorf("asked %s", asked)
		}
		p.Look(pod, nil, "", true)
		p.pass(time.Minute)
		p.wants("questions when the container has ended", p.questions(), "")
		p.Forget(pod.UID)
		p.wants("pods", len(p.pods), 0)
		p.wants("queue", len(p.queue), 0)
	})
}

// What is under way when a container ends says nothing of the next one.
func TestProber_LateAnswer(t *testing.T) {
	story(t, func(p *probing) {
		pod := probedTestPod(nil, every(10, func(s *corev1.Probe) { s.FailureThreshold = 1; s.InitialDelaySeconds = 1 }), nil)
		p.answer = func(Question) (probe.Result, string, error) {
			time.Sleep(5 * time.Second)
			return probe.Success, "", nil
		}
		p.Look(pod, p.runs("1"), "", false)
		p.pass(3 * time.Second)
		p.always(probe.Failure, "no")
		p.Look(pod, p.runs("2"), "", false)
		p.pass(5 * time.Second)
		p.wants("health", p.Look(pod, p.runs("2"), "", false)["2"], Health{Started: true})
		p.Forget(pod.UID)
		p.pass(time.Minute)
	})
}

func TestProber_Errors(t *testing.T) {
	story(t, func(p *probing) {
		pod := probedTestPod(nil, nil, every(10, func(s *corev1.Probe) { s.FailureThreshold = 1 }))
		p.answer = func(Question) (probe.Result, string, error) {
			return probe.Unknown, "", errors.New("cannot exec")
		}
		p.Look(pod, p.runs("1"), "", false)
		p.pass(5 * time.Second)
		p.wants("health", p.Look(pod, p.runs("1"), "", false)["1"], good)
		p.wants("questions", p.questions(), "Liveness 1s, Liveness 1s, Liveness 1s")
		p.wants("events", p.events, []string{"c Unhealthy Liveness probe errored and resulted in unknown state: cannot exec"})
	})
}

func TestProber_Warning(t *testing.T) {
	story(t, func(p *probing) {
		pod := probedTestPod(nil, every(10, nil), nil)
		p.always(probe.Warning, "Probe terminated redirects")
		p.Look(pod, p.runs("1"), "", false)
		p.pass(time.Second)
		p.wants("health", p.Look(pod, p.runs("1"), "", false)["1"], good)
		p.wants("events", p.events, []string{"c ProbeWarning Readiness probe warning: Probe terminated redirects"})
	})
}

func TestProber_Sidecar(t *testing.T) {
	story(t, func(p *probing) {
		always := corev1.ContainerRestartPolicyAlways
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1-2"}, Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "c", RestartPolicy: &always, StartupProbe: every(10, nil)}}, Containers: []corev1.Container{{Name: "main"}},
		}}
		p.wants("health", p.Look(pod, p.runs("1"), "", false), map[string]Health{"1": {}})
		p.pass(time.Second)
		p.wants("health", p.Look(pod, p.runs("1"), "", false), map[string]Health{"1": good})
	})
}

func TestProber_Metrics(t *testing.T) {
	story(t, func(p *probing) {
		registry := prometheus.NewRegistry()
		if err := registry.Register(p.Prober); err != nil {
			t.Fatal(err)
		}
		pod := probedTestPod(nil, every(10, nil), nil)
		p.answer = func(Question) (probe.Result, string, error) {
			time.Sleep(20 * time.Millisecond)
			return probe.Success, "", nil
		}
		p.Look(pod, p.runs("1"), "", false)
		p.pass(15 * time.Second)
		p.always(probe.Failure, "")
		p.pass(10 * time.Second)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, family := range families {
			for _, m := range family.Metric {
				var labels []string
				for _, l := range m.Label {
					labels = append(labels, l.GetValue())
				}
				name := family.GetName() + " " + strings.Join(labels, " ")
				if h := m.GetHistogram(); h != nil {
					got[name] = float64(h.GetSampleCount())
					got[name+" under 10ms"] = float64(h.GetBucket()[1].GetCumulativeCount())
					got[name+" under 25ms"] = float64(h.GetBucket()[2].GetCumulativeCount())
				} else {
					got[name] = m.GetCounter().GetValue()
				}
			}
		}
		duration := "prober_probe_duration_seconds c ns web Readiness"
		p.wants("metrics", got, map[string]float64{
			"prober_probe_total c ns web 1-2 Readiness successful": 2, "prober_probe_total c ns web 1-2 Readiness failed": 1,
			duration: 2, duration + " under 10ms": 0, duration + " under 25ms": 2,
		})
		p.Forget(pod.UID)
		if families, err = registry.Gather(); err != nil || len(families) > 0 {
			t.Errorf("after the pod has gone: %v, %v", families, err)
		}
	})
}
