package kubelet

import (
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"vigil/internal/panics"
	"vigil/kubelet/probe"
	"vigil/kubelet/prober"
)

// A probe that panics counts as one that could not be asked.
func TestProber_Panic(t *testing.T) {
	counted := panics.Count(panics.Probe)
	k := &Kubelet{config: Config{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}}
	result, _, err := k.askProbe(t.Context(), prober.Question{Pod: &corev1.Pod{}, Container: &corev1.Container{}}) // without a spec
	if result != probe.Failure || err == nil || !strings.HasPrefix(err.Error(), "panicked: ") {
		t.Errorf("got %v, %v", result, err)
	}
	if n := panics.Count(panics.Probe) - counted; n != 1 {
		t.Errorf("%d panics were counted, want 1", n)
	}
}
