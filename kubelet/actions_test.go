package kubelet

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"vigil/kubelet/internal/podcontainers"
	"vigil/kubelet/prober"
)

// describe writes actions down: "sandbox; init i; start a b; kill b: why".
func describe(a actions) string {
	var parts []string
	for name, on := range map[string]bool{"end": a.end, "restart all": a.restartAll, "sandbox": a.sandbox} {
		if on {
			parts = append(parts, name)
		}
	}
	for _, k := range a.kill {
		parts = append(parts, fmt.Sprintf("kill %s: %s", k.spec.Name, k.message))
	}
	list := func(what string, containers []*corev1.Container) {
		if len(containers) == 0 {
			return
		}
		for _, c := range containers {
			what += " " + c.Name
		}
		parts = append(parts, what)
	}
	list("ephemeral", a.ephemeral)
	list("init", a.init)
	list("start", a.start)
	return strings.Join(parts, "; ")
}

func TestCompute(t *testing.T) {
	noSandbox := func(now *observed) { now.sandbox = nil }
	dead := func(now *observed) { now.sandbox.Ready = false }
	healthIs := func(name string, h prober.Health) func(*observed) {
		return func(now *observed) { now.health = map[string]prober.Health{"id-" + name: h} }
	}
	secondSidecar := func(p *corev1.Pod) {
		other := p.Spec.InitContainers[len(p.Spec.InitContainers)-1]
		other.Name = "t"
		p.Spec.InitContainers = append(p.Spec.InitContainers, other)
	}
	policyOf := func(name string, policy corev1.ContainerRestartPolicy, rules ...corev1.ContainerRestartRule) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			for c := range podcontainers.All(p) {
				if c.Name == name {
					c.RestartPolicy, c.RestartPolicyRules = &policy, rules
				}
			}
		}
	}
	rule := func(action corev1.ContainerRestartRuleAction, operator corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) corev1.ContainerRestartRule {
		return corev1.ContainerRestartRule{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes}}
	}
	const restart, restartEverything = corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn

	for _, test := range []struct {
		name         string
		policy       corev1.RestartPolicy
		init, helper bool
		pod          func(*corev1.Pod)
		seen         string
		now          func(*observed)
		want         string
	}{
		{name: "new", policy: always, now: noSandbox, want: "sandbox; start a b"},
		{name: "new with init", policy: always, init: true, now: noSandbox, want: "sandbox; init i"},
		{name: "runs", policy: always, seen: "a+ b+"},
		{name: "one is missing", policy: always, seen: "a+", want: "start b"},
		{name: "left over", policy: always, seen: "ac b+", want: "start a"},
		{name: "crashed", policy: always, seen: "a1 b+", want: "start a"},
		{name: "crashed for good", policy: never, seen: "a1 b+"},
		{name: "all over", policy: never, seen: "a1 b0", want: "end"},
		{name: "done", policy: onFailure, seen: "a0 b0", want: "end"},
		{name: "one failed", policy: onFailure, seen: "a0 b2", want: "start b"},

		{name: "sandbox died", policy: always, seen: "a2 b2", now: dead, want: "sandbox; start a b"},
		{name: "sandbox died with init", policy: always, init: true, seen: "i0 a2 b2", now: dead, want: "sandbox; init i"},
		{name: "sandbox died under a pod that does not restart", policy: never, seen: "a2 b2", now: dead, want: "end"},
		{name: "sandbox died, one was done", policy: onFailure, seen: "a0 b2", now: dead, want: "sandbox; start b"},
		{name: "sandbox died, all were done", policy: onFailure, seen: "a0 b0", now: dead, want: "end"},

		{name: "init", policy: always, init: true, seen: "", want: "init i"},
		{name: "init runs", policy: always, init: true, seen: "i+"},
		{name: "init done", policy: always, init: true, seen: "i0", want: "start a b"},
		{name: "init failed", policy: always, init: true, seen: "i1", want: "init i"},
		{name: "init failed for good", policy: never, init: true, seen: "i1", want: "end"},
		{name: "init failed for good by itself", policy: always, init: true, pod: policyOf("i", corev1.ContainerRestartPolicyNever), seen: "i1", want: "end"},
		{name: "init is forgotten", policy: always, init: true, seen: "a+ b+"},

		{name: "sidecar first", policy: always, init: true, helper: true, seen: "i0", want: "init s"},
		{name: "sidecar runs", policy: always, helper: true, seen: "s+", want: "start a b"},
		{name: "sidecar is starting", policy: always, helper: true, seen: "s+", now: healthIs("s", prober.Health{})},
		{name: "sidecar lets the next one start", policy: always, helper: true, pod: secondSidecar, seen: "s+", want: "init t"},
		{name: "sidecar still starting holds the next one up", policy: always, helper: true, pod: secondSidecar, seen: "s+", now: healthIs("s", prober.Health{})},
		{name: "sidecar crashed before init was over", policy: always, helper: true, pod: secondSidecar, seen: "s1", want: "init s"},
		{name: "sidecar crashed", policy: never, helper: true, seen: "s1 a+ b+", want: "init s"},
		{name: "sidecar is forgotten", policy: always, helper: true, seen: "a+ b+", want: "init s"},
		{name: "sidecar ends with the others", policy: never, helper: true, seen: "s+ a0 b0", want: "end"},
		{name: "sidecar's startup probe failed", policy: always, helper: true, seen: "s+ a+ b+", now: healthIs("s", prober.Health{Failed: "failed startup probe"}),
			want: "kill s: Init container s failed startup probe; init s"},

		{name: "other image", policy: never, pod: func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }, seen: "a+ b+",
			want: "kill a: Container a definition changed, will be restarted; start a"},
		{name: "liveness", policy: always, seen: "a+ b+", now: healthIs("a", prober.Health{Started: true, Failed: "failed liveness probe"}),
			want: "kill a: Container a failed liveness probe, will be restarted; start a"},
		{name: "liveness without restart", policy: never, seen: "a+ b+", now: healthIs("a", prober.Health{Started: true, Failed: "failed liveness probe"}),
			want: "kill a: Container a failed liveness probe"},

		{name: "own policy", policy: never, pod: policyOf("a", corev1.ContainerRestartPolicyAlways), seen: "a0 b+", want: "start a"},
		{name: "own policy never", policy: always, pod: policyOf("a", corev1.ContainerRestartPolicyNever), seen: "a1 b+"},
		{name: "rule", policy: never, pod: policyOf("a", corev1.ContainerRestartPolicyNever, rule(restart, in, 4, 2)), seen: "a2 b+", want: "start a"},
		{name: "rule that does not match", policy: never, pod: policyOf("a", corev1.ContainerRestartPolicyNever, rule(restart, in, 4)), seen: "a2 b+"},
		{name: "rule not in", policy: never, pod: policyOf("a", corev1.ContainerRestartPolicyNever, rule(restart, notIn, 4)), seen: "a2 b+", want: "start a"},
		{name: "everything", policy: never, pod: policyOf("a", corev1.ContainerRestartPolicyNever, rule(restartEverything, in, 7)), seen: "a7 b+", want: "restart all"},
		{name: "everything, another code", policy: never, pod: policyOf("a", corev1.ContainerRestartPolicyNever, rule(restartEverything, in, 7)), seen: "a6 b+"},

		{name: "debug", policy: always, seen: "a+ b+", want: "ephemeral e", pod: func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "image"}}}
		}},
		{name: "debugged", policy: always, seen: "a+ b+ e1", pod: func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "image"}}}
		}},
		{name: "debugged in a sandbox before", policy: always, seen: "a+ b+", pod: func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Image: "image"}}}
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "e", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
		}},

		{name: "resize in place", policy: always, seen: "a+ b+", pod: asks("a", "200m"), now: has("a", "100m")},
		{name: "resize by restart", policy: always, seen: "a+ b+", now: has("a", "100m"), pod: func(p *corev1.Pod) {
			asks("a", "200m")(p)
			p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
		}, want: "kill a: Container a resize requires restart; start a"},
		{name: "resize of what needs no restart", policy: always, seen: "a+ b+", now: has("a", "100m"), pod: func(p *corev1.Pod) {
			asks("a", "200m")(p)
			p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod, now := testPod(test.policy, test.init, test.helper), seen(test.seen)
			if test.pod != nil {
				test.pod(pod)
			}
			if test.now != nil {
				test.now(&now)
			}
			if got := describe(compute(pod, now)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func cpu(amount string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}}
}

func asks(name, amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for c := range podcontainers.All(p) {
			if c.Name == name {
				c.Resources = cpu(amount)
			}
		}
	}
}

func has(name, amount string) func(*observed) {
	return func(now *observed) { now.actuated = map[string]corev1.ResourceRequirements{name: cpu(amount)} }
}
