package scheduler_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"vigil/scheduler"
	"vigil/scheduler/framework"
	"vigil/scheduler/nodecache"
)

// spy is a plug-in at every point. It notes when it is asked about which pod, and answers as it is told.
type spy struct {
	mu      sync.Mutex
	asked   []string                                               // "point pod"
	answers map[string]func(ctx context.Context) *framework.Status // by "point pod"
}

func (s *spy) ask(ctx context.Context, point string, pod *nodecache.Pod) *framework.Status {
	key := point + " " + pod.Pod.Name
	s.mu.Lock()
	s.asked = append(s.asked, key)
	answer := s.answers[key]
	s.mu.Unlock()
	if answer == nil {
		return nil
	}
	return answer(ctx)
}

// points are those at which the spy was asked about a pod, in their order, repeated ones once.
func (s *spy) points(pod string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var points []string
	for _, key := range s.asked {
		if point, of, _ := strings.Cut(key, " "); of == pod {
			points = append(points, point)
		}
	}
	return strings.Join(slices.Compact(points), " ")
}

func (*spy) Name() string                      { return "Spy" }
func (*spy) EventsToRegister() framework.Event { return framework.NodeLabels }
func (s *spy) PreFilter(_ *framework.CycleState, pod *nodecache.Pod, _ *nodecache.Snapshot) *framework.Status {
	return s.ask(context.Background(), "PreFilter", pod)
}
func (s *spy) Filter(_ *framework.CycleState, pod *nodecache.Pod, _ *nodecache.Node) *framework.Status {
	return s.ask(context.Background(), "Filter", pod)
}
func (s *spy) PostFilter(ctx context.Context, _ *framework.CycleState, pod *nodecache.Pod, _ *nodecache.Snapshot, refused map[string]*framework.Status) (string, *framework.Status) {
	if refused["a"].Message() != "not by me" {
		return "", framework.NewStatus(framework.Error, "a was refused by "+refused["a"].Message())
	}
	return "", s.ask(ctx, "PostFilter", pod)
}
func (s *spy) PreScore(_ *framework.CycleState, pod *nodecache.Pod, _ []*nodecache.Node) *framework.Status {
	return s.ask(context.Background(), "PreScore", pod)
}
func (s *spy) Score(_ *framework.CycleState, pod *nodecache.Pod, node *nodecache.Node) int64 {
	s.ask(context.Background(), "Score", pod)
	if node.Node.Name == "b" {
		return 7
	}
	return 3
}
func (s *spy) NormalizeScore(_ *framework.CycleState, pod *nodecache.Pod, scores []int64) {
	s.ask(context.Background(), "NormalizeScore", pod)
	for i := range scores {
		scores[i] *= 1000 // more than all others together
	}
}
func (s *spy) Reserve(_ *framework.CycleState, pod *nodecache.Pod, _ *corev1.Node) *framework.Status {
	return s.ask(context.Background(), "Reserve", pod)
}
func (s *spy) Unreserve(_ *framework.CycleState, pod *nodecache.Pod, _ *corev1.Node) {
	s.ask(context.Background(), "Unreserve", pod)
}
func (s *spy) Permit(ctx context.Context, _ *framework.CycleState, pod *nodecache.Pod, _ *corev1.Node) *framework.Status {
	return s.ask(ctx, "Permit", pod)
}
func (s *spy) PreBindPreFlight(_ *framework.CycleState, pod *nodecache.Pod, _ *corev1.Node) *framework.Status {
	return s.ask(context.Background(), "PreBindPreFlight", pod)
}
func (s *spy) PreBind(ctx context.Context, _ *framework.CycleState, pod *nodecache.Pod, _ *corev1.Node) *framework.Status {
	return s.ask(ctx, "PreBind", pod)
}
func (s *spy) Bind(ctx context.Context, _ *framework.CycleState, pod *nodecache.Pod, _ *corev1.Node) *framework.Status {
	s.ask(ctx, "Bind", pod)
	return framework.NewStatus(framework.Skip) // the default binder does it
}

// once answers the first question with status, and all others with success.
func once(status *framework.Status) func(context.Context) *framework.Status {
	var asked sync.Once
	return func(context.Context) (answer *framework.Status) {
		asked.Do(func() { answer = status })
		return answer
	}
}

// TestFramework_Points: a plug-in is asked at each point, in order; what it refuses is undone, told to the pod, and tried again.
func TestFramework_Points(t *testing.T) {
	refuse := framework.NewStatus(framework.Unschedulable, "not by me")
	release := make(chan struct{})
	plugin := &spy{answers: map[string]func(context.Context) *framework.Status{
		"Filter filtered": func(context.Context) *framework.Status { return refuse },
		"PostFilter filtered": func(context.Context) *framework.Status {
			return framework.NewStatus(framework.Unschedulable, "nothing helps")
		},
		"PreFilter prefiltered": func(context.Context) *framework.Status { return refuse },
		"PreFilter skipped":     func(context.Context) *framework.Status { return framework.NewStatus(framework.Skip) },
		"PreScore skipped":      func(context.Context) *framework.Status { return framework.NewStatus(framework.Skip) },
		"Reserve unreserved":    once(refuse),
		"PreFilter unfiltered":  once(framework.AsStatus(errors.New("planted"))),
		"Filter broken":         once(framework.AsStatus(errors.New("planted"))),
		"PreBind failing":       once(framework.AsStatus(errors.New("planted"))),
		"PreBindPreFlight idle": func(context.Context) *framework.Status { return framework.NewStatus(framework.Skip) },
		"PreBind panicking":     once(nil),
		"Permit waiting": func(ctx context.Context) *framework.Status {
			select {
			case <-release:
				return nil
			case <-ctx.Done():
				return framework.AsStatus(ctx.Err())
			}
		},
	}}
	var panicked sync.Once
	plugin.answers["PreBind panicking"] = func(context.Context) *framework.Status {
		panicked.Do(func() { panic("planted") })
		return nil
	}
	c := start(t, func(config *scheduler.Config) {
		config.Plugins = func(scheduler.Profile) []framework.Plugin { return []framework.Plugin{plugin} }
		config.Backoff.Initial, config.Backoff.Max = 1e6, 1e7 // nanoseconds
	})
	c.node("a", "64", nil)
	c.node("b", "64", nil)

	const all = "PreFilter Filter PreScore Score NormalizeScore Reserve PreBindPreFlight Permit PreBind Bind"
	c.pod("waiting", "1m", nil)
	for _, test := range []struct{ pod, node, points string }{
		{"plain", "b", strings.Replace(all, "PreBindPreFlight Permit PreBind", "Permit PreBindPreFlight PreBind", 1)},
		{"skipped", "", "PreFilter PreScore Reserve Permit PreBindPreFlight PreBind Bind"},
		{"idle", "b", "PreFilter Filter PreScore Score NormalizeScore Reserve Permit PreBindPreFlight Bind"},
	} {
		c.pod(test.pod, "1m", nil)
		if test.node != "" {
			c.bound(test.pod, test.node)
		} else {
			c.wait(test.pod, "is bound", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
		}
		if got := plugin.points(test.pod); got != test.points {
			t.Errorf("%s was asked about at\n%s, want\n%s", test.pod, got, test.points)
		}
	}
	// It has waited while others were bound.
	if got := plugin.points("waiting"); !strings.HasSuffix(got, "Reserve Permit") {
		t.Errorf("the waiting pod is at %s", got)
	}
	close(release)
	c.bound("waiting", "b")

	c.pod("filtered", "1m", nil)
	c.refused("filtered", "0/2 nodes are available: 2 not by me. nothing helps")
	c.pod("prefiltered", "1m", nil)
	c.refused("prefiltered", "0/2 nodes are available: not by me.")

	// What fails is tried again without an event.
	for pod, point := range map[string]string{"unfiltered": "PreFilter", "broken": "Filter"} {
		c.pod(pod, "1m", nil)
		c.bound(pod, "b")
		c.hasEvent(pod, corev1.EventTypeWarning, "FailedScheduling", `running `+point+` plugin "Spy": planted`)
	}
	for pod, event := range map[string]string{
		"unreserved": `running Reserve plugin "Spy": not by me`,
		"failing":    `running PreBind plugin "Spy": planted`,
		"panicking":  "",
	} {
		c.pod(pod, "1m", nil)
		if pod == "unreserved" {
			c.wait(pod, "is refused", func(p *corev1.Pod) bool { return scheduled(p).Reason == corev1.PodReasonUnschedulable })
			c.patchNode("a", `{"metadata":{"labels":{"again":"`+pod+`"}}}`)
		}
		c.bound(pod, "b")
		if event != "" {
			c.hasEvent(pod, corev1.EventTypeWarning, "FailedScheduling", event)
		}
		if got := plugin.points(pod); strings.Count(got, "Unreserve") != 1 || strings.Count(got, "Bind") < 2 {
			t.Errorf("%s was asked about at %s", pod, got)
		}
	}
}
