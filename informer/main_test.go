package informer

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/informer/internal/fakeapi"
	"vigil/internal/eventually"
	"vigil/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m, "vigil/informer") }

// fast has every duration short enough for tests.
func fast() timing {
	return timing{
		backoffMin: 2 * time.Millisecond, backoffMax: 20 * time.Millisecond,
		watchMin: time.Minute, watchMax: 2 * time.Minute, watchGrace: time.Second,
		shortWatch: 50 * time.Millisecond,
	}
}

// newTestFactory makes a factory that is not running yet.
func newTestFactory(t testing.TB, s *fakeapi.Server) *Factory {
	t.Helper()
	f, err := NewFactory(s.Config(), Config{Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	f.timing = fast()
	return f
}

// testWriter is an io.Writer on a test's log.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// start runs a factory until the test ends and waits for the first list.
func start(t testing.TB, f *Factory) {
	t.Helper()
	run(t, f)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := f.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
}

func run(t testing.TB, f *Factory) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

func pod(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "c", Image: "image"}}},
	}
}

var podResource = ResourceOf[*corev1.Pod]()

// caughtUp waits until an informer is complete up to a version and its handlers have been told.
func caughtUp(t testing.TB, i *Informer, version string) {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%s at version %s", i.Resource(), version), func() bool {
		have := []byte(i.ResourceVersion())
		return len(have) > 0 && !older(have, []byte(version))
	})
}

// recorder is a handler that writes down what it is told, as "add ns/name@version".
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorder) handler() EventHandler {
	note := func(format string, args ...any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls = append(r.calls, fmt.Sprintf(format, args...))
	}
	return EventHandler{
		OnAdd: func(o *Object, initial bool) {
			if initial {
				note("initial %s@%s", o.Key(), o.ResourceVersion())
			} else {
				note("add %s@%s", o.Key(), o.ResourceVersion())
			}
		},
		OnUpdate: func(old, o *Object) { note("update %s@%s>%s", o.Key(), old.ResourceVersion(), o.ResourceVersion()) },
		OnDelete: func(o *Object, stale bool) {
			if stale {
				note("stale delete %s@%s", o.Key(), o.ResourceVersion())
			} else {
				note("delete %s@%s", o.Key(), o.ResourceVersion())
			}
		},
	}
}

func (r *recorder) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.calls...)
}

// wait waits until n calls have been written down and returns them.
func (r *recorder) wait(t testing.TB, n int) []string {
	t.Helper()
	eventually.True(t, fmt.Sprintf("%d calls of the handler", n), func() bool { return len(r.told()) >= n })
	return r.told()
}
