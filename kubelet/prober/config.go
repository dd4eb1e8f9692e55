package prober

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/probe"
)

// Config says how containers are asked, and who hears of the answers. All functions are needed; they are called by many goroutines at once, without a lock.
type Config struct {
	// Ask asks once. err is about the attempt: the container could not be asked.
	Ask func(ctx context.Context, q Question) (result probe.Result, output string, err error)
	// Changed is told of a pod whose health has changed.
	Changed func(pod types.UID)
	// Event makes an event of type Warning about a container.
	Event func(pod *corev1.Pod, container *corev1.Container, reason, message string)
}

// Question is a probe as it is asked once; nobody changes it.
type Question struct {
	kind      probeKind
	Spec      *corev1.Probe
	Pod       *corev1.Pod
	Container *corev1.Container
	ID, IP    string // of the container, of the pod
}

// Running is a container that runs.
type Running struct {
	ID      string
	Started time.Time
}

// Health is what probes say of a container that runs.
type Health struct {
	Started bool   // its startup probe has succeeded, or it has none
	Ready   bool   // its readiness probe has, or it has none
	Failed  string // what it is to be killed for: "failed liveness probe"; "" while it is good
	Grace   *int64 // seconds that the failed probe gives it
}
