package simulated

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Annotations of a pod that say how its containers end.
const (
	RunForAnnotation   = "simulated.vigil.dev/run-for"
	ExitCodeAnnotation = "simulated.vigil.dev/exit-code"
)

// forever is the life of a container that ends only when it is stopped.
const forever = time.Duration(math.MaxInt64)

// script says how long a container runs and what it exits with.
func script(pod *corev1.Pod, c *corev1.Container) (life time.Duration, exitCode int32) {
	if waitedFor(pod, c.Name) {
		if life, exitCode = command(c); life == forever {
			return 0, 0
		}
		return life, exitCode
	}
	if after, err := time.ParseDuration(pod.Annotations[RunForAnnotation]); err == nil && after >= 0 {
		if code, err := strconv.ParseInt(pod.Annotations[ExitCodeAnnotation], 10, 32); err == nil {
			exitCode = int32(code)
		}
		return after, exitCode
	}
	return command(c)
}

// waitedFor says whether the pod's containers wait for this one to end: an init container that is no sidecar.
func waitedFor(pod *corev1.Pod, name string) bool {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == name {
			return c.RestartPolicy == nil || *c.RestartPolicy != corev1.ContainerRestartPolicyAlways
		}
	}
	return false
}

// command says how long a container's command runs and what it exits with.
func command(c *corev1.Container) (life time.Duration, exitCode int32) {
	words := slices.Concat(c.Command, c.Args)
	if len(words) >= 2 && strings.HasSuffix(words[0], "sh") && words[1] == "-c" {
		words = words[2:]
	}
	if len(words) == 0 {
		return forever, 0
	}
	// The last command of a line decides: "sleep 2; exit 3" runs for two seconds and fails.
	known := false
	var total time.Duration
	for command := range strings.SplitSeq(strings.ReplaceAll(strings.Join(words, " "), "&&", ";"), ";") {
		fields := strings.Fields(command)
		if len(fields) == 0 {
			continue
		}
		number := func() (float64, bool) {
			if len(fields) != 2 {
				return 0, false
			}
			n, err := strconv.ParseFloat(strings.TrimSuffix(fields[1], "s"), 64)
			return n, err == nil && n >= 0 && n < 1e9
		}
		switch name := fields[0][strings.LastIndexByte(fields[0], '/')+1:]; name {
		case "true", "echo":
			known, exitCode = true, 0
		case "false":
			known, exitCode = true, 1
		case "exit":
			if n, ok := number(); ok {
				return total, int32(n)
			}
		case "sleep":
			n, ok := number()
			if !ok { // "sleep infinity"
				return forever, 0
			}
			known, exitCode = true, 0
			total += time.Duration(n * float64(time.Second))
		default:
			return forever, 0
		}
	}
	if !known {
		return forever, 0
	}
	return total, exitCode
}
