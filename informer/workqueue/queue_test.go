package workqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"vigil/internal/panics"
)

func key(name string) types.NamespacedName { return types.NamespacedName{Namespace: "a", Name: name} }

// limiter waits a second for each failure.
func limiter() workqueue.TypedRateLimiter[types.NamespacedName] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Second, time.Hour)
}

// run runs a queue in a bubble of simulated time until the returned function is called.
func run(q *Queue, workers int, fn Reconcile) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- q.Run(ctx, workers, fn) }()
	return func() error {
		cancel()
		return <-done
	}
}

func TestQueue_WorksOnWhatWasAddedBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config{Name: "test"})
		q.Add(key("one"))
		q.Add(key("one"))
		q.AddAfter(key("later"), time.Hour)
		q.AddAfter(key("sooner"), time.Hour)
		q.Add(key("sooner"))
		if q.Len() != 3 {
			t.Errorf("%d names wait, want 3", q.Len())
		}
		var n, late atomic.Int64
		stop := run(q, 2, func(_ context.Context, k types.NamespacedName) (time.Duration, error) {
			if n.Add(1); k == key("later") {
				late.Add(1)
			}
			return 0, nil
		})
		time.Sleep(59 * time.Minute)
		synctest.Wait()
		if n.Load() != 2 || late.Load() != 0 {
			t.Errorf("%d reconciliations in the first hour, want 2", n.Load())
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n.Load() != 3 || late.Load() != 1 {
			t.Errorf("%d reconciliations after the hour, want 3", n.Load())
		}
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
		if err := q.Run(context.Background(), 1, nil); !errors.Is(err, errRan) {
			t.Errorf("second Run returned %v", err)
		}
		q.Add(key("too late")) // does nothing
	})
}

func TestQueue_RetriesWithGrowingDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config{Name: "test", Limiter: limiter()})
		begin := time.Now()
		at := make(chan string, 10)
		n := 0
		stop := run(q, 1, func(context.Context, types.NamespacedName) (time.Duration, error) {
			at <- fmt.Sprint(time.Since(begin).Round(time.Millisecond))
			if n++; n < 4 {
				return 0, errors.New("not yet")
			}
			if n == 4 {
				return time.Minute, nil
			}
			return 0, nil
		})
		q.Add(key("one"))
		var got []string
		for range 5 {
			got = append(got, <-at)
		}
		if want := "[0s 1s 3s 7s 1m7s]"; fmt.Sprint(got) != want {
			t.Errorf("reconciled at %v, want %v", got, want)
		}
		_ = stop()
	})
}

// Being outrun by another writer is logged as a warning only when it goes on.
func TestQueue_WarnsOfWhatMatters(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "one", errors.New("changed"))
	for _, tc := range []struct {
		err            error
		tries, warning int // the first try that is warned of; 0: none
	}{{conflict, 5, 0}, {conflict, 6, 6}, {errors.New("broken"), 1, 1}} {
		synctest.Test(t, func(t *testing.T) {
			var log strings.Builder
			q := New(Config{Name: "test", Limiter: limiter(), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
			tries := 0
			stop := run(q, 1, func(context.Context, types.NamespacedName) (time.Duration, error) {
				if tries++; tries > tc.tries {
					return 0, nil
				}
				return 0, tc.err
			})
			q.Add(key("one"))
			time.Sleep(time.Hour)
			_ = stop()
			want := 0
			if tc.warning > 0 {
				want = 1
			}
			got := log.String()
			if strings.Count(got, "level=WARN") != want || !strings.Contains(got, fmt.Sprintf("failures=%d", tc.warning)) && want > 0 {
				t.Errorf("%v, %d times: logged %q", tc.err, tc.tries, got)
			}
		})
	}
}

func TestQueue_TerminalErrorsAreNotRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		m, err := NewMetrics(reg)
		if err != nil {
			t.Fatal(err)
		}
		q := New(Config{Name: "test", Limiter: limiter(), Metrics: m})
		var n atomic.Int64
		cause := errors.New("never will")
		stop := run(q, 1, func(context.Context, types.NamespacedName) (time.Duration, error) {
			n.Add(1)
			return 0, fmt.Errorf("reconcile: %w", Terminal(cause))
		})
		q.Add(key("one"))
		time.Sleep(24 * time.Hour)
		if n.Load() != 1 {
			t.Errorf("%d reconciliations, want 1", n.Load())
		}
		if !errors.Is(Terminal(cause), cause) {
			t.Error("Terminal hides its cause")
		}
		_ = stop()
		found := map[string]bool{}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, m := range f.Metric {
				found[f.GetName()+fmt.Sprint(m.GetLabel())] = true
			}
		}
		for _, want := range []string{`controller_runtime_reconcile_total[name:"controller" value:"test" name:"result" value:"terminal_error"]`, `workqueue_adds_total[name:"name" value:"test"]`} {
			ok := false
			for have := range found {
				ok = ok || strings.ReplaceAll(have, "  ", " ") == want
			}
			if !ok {
				t.Errorf("no metric %s in %v", want, found)
			}
		}
	})
}

// One name is worked on by one worker at a time, and once more when it was added meanwhile; others are not held up.
func TestQueue_OneWorkerForEachName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Config{Name: "test"})
		var busy, most, runs atomic.Int64
		others := make(chan struct{}, 1)
		stop := run(q, 8, func(_ context.Context, k types.NamespacedName) (time.Duration, error) {
			if k != key("one") {
				others <- struct{}{}
				return 0, nil
			}
			runs.Add(1)
			most.Store(max(most.Load(), busy.Add(1)))
			time.Sleep(time.Second)
			busy.Add(-1)
			return 0, nil
		})
		for range 5 {
			q.Add(key("one"))
			synctest.Wait()
		}
		q.Add(key("two"))
		<-others
		time.Sleep(10 * time.Second)
		if most.Load() != 1 || runs.Load() != 2 {
			t.Errorf("%d at once in %d runs, want 1 in 2", most.Load(), runs.Load())
		}
		_ = stop()
	})
}

func TestNew_StartsNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		New(Config{}).Add(key("one"))
	}
	if after := runtime.NumGoroutine(); after > before {
		t.Errorf("%d goroutines started", after-before)
	}
}

// A name whose reconciliation panics comes back with back-off, and the workers go on.
func TestQueue_Panic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		m, err := NewMetrics(reg)
		if err != nil {
			t.Fatal(err)
		}
		q := New(Config{Name: "test", Limiter: limiter(), Metrics: m})
		counted := panics.Count(panics.Reconcile)
		var tries []time.Duration
		began, others := time.Now(), 0
		stop := run(q, 1, func(_ context.Context, k types.NamespacedName) (time.Duration, error) {
			if k != key("mine") {
				others++
				return 0, nil
			}
			if tries = append(tries, time.Since(began)); len(tries) <= 3 {
				panic("planted")
			}
			return 0, nil
		})
		q.Add(key("mine"))
		q.Add(key("other"))
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
		if want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}; !slices.Equal(tries, want) || others != 1 {
			t.Errorf("tried after %v, want %v; the other name was reconciled %d times", tries, want, others)
		}
		if n := panics.Count(panics.Reconcile) - counted; n != 3 {
			t.Errorf("%d panics were counted, want 3", n)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "controller_runtime_reconcile_panics_total" })
		if i < 0 || families[i].GetMetric()[0].GetCounter().GetValue() != 3 {
			t.Errorf("controller_runtime_reconcile_panics_total is not 3: %v", families)
		}
	})
}
