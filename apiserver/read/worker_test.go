package read

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"vigil/apiserver/metrics"
	"vigil/internal/panics"
	"vigil/kinds/core"
)

// A watch that panics in its turn, here because it was not begun, is counted; the worker goes on.
func TestWorker_Panic(t *testing.T) {
	w := newWorker(slog.New(slog.NewTextHandler(t.Output(), nil)))
	res := &Resource{Kind: core.Pod(), Metrics: metrics.New(prometheus.NewRegistry()).Resource("", "v1", "pods", "")}
	counted := panics.Count(panics.Watch)
	v := &driven{watch: watch{res: res}}
	v.gone.Store(true) // it is to be ended, and has no stream
	w.give(v)
	if n := panics.Count(panics.Watch) - counted; n != 1 {
		t.Errorf("%d panics were counted, want 1", n)
	}
}
