package panics

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

//go:noinline
func divide(a, b int) int { return a / b }

func TestTry(t *testing.T) {
	before := Count(Probe)
	sentinel := errors.New("no")
	if err := Try(nil, Probe, func() error { return sentinel }); !errors.Is(err, sentinel) {
		t.Errorf("an error became %v", err)
	}
	n, err := Call(nil, Probe, func() (int, error) { return divide(1, 0), nil })
	var panicked *Error
	if !errors.As(err, &panicked) || panicked.Place != Probe || err.Error() != "panicked: runtime error: integer divide by zero" || n != 0 {
		t.Errorf("got %d, %v", n, err)
	}
	if Do(nil, Probe, func() { panic(sentinel) }) || !Do(nil, Probe, func() {}) {
		t.Error("Do says of a panic that the function has returned, or the other way round")
	}
	if n := Count(Probe) - before; n != 2 {
		t.Errorf("%d were counted, want 2", n)
	}
	if line := Line(); !strings.HasPrefix(line, "[!]panics recovered: ") || !strings.Contains(line, "probe ") || strings.Contains(line, "divide") {
		t.Errorf("the line is %q", line)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector())
	prometheus.NewRegistry().MustRegister(NewCollector()) // several components of a process
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "vigil_panics_total" {
		t.Fatalf("gathered %v, %v", families, err)
	}
	var labels []string
	for _, m := range families[0].GetMetric() {
		labels = append(labels, m.GetLabel()[0].GetValue())
	}
	if want := Places(); !slices.Equal(slices.Sorted(slices.Values(labels)), slices.Sorted(slices.Values(want))) || slices.Contains(want, "") {
		t.Errorf("labels %v, want %v", labels, want)
	}
}

// The log has the stack once an hour and a line once a minute for each line of code that panics, however often it does.
func TestRecovered_Log(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, nil))
		j := journal{origins: map[origin]*told{}}
		recovered := func(f func()) {
			defer func() { j.write(log, Watch, recover(), []any{"resource", "pods"}) }()
			f()
		}
		once := func() { recovered(func() { t.Log(divide(1, 0)) }) }
		again := func() { recovered(func() { panic(strings.Repeat("long", 100_000)) }) }
		lines := func() []string {
			defer out.Reset()
			return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		}
		for range 1000 {
			once()
		}
		got := lines()
		if len(got) != 1 {
			t.Fatalf("1000 panics made %d lines", len(got))
		}
		for _, want := range []string{
			"level=ERROR", `msg="watch panicked; `, "resource=pods", `panic="runtime error: integer divide by zero"`, "times=1", "at=vigil/internal/panics.divide:",
			`stack="vigil/internal/panics.divide\n`, "TestRecovered_Log",
		} {
			if !strings.Contains(got[0], want) {
				t.Errorf("%q is missing in %s", want, got[0])
			}
		}
		if strings.Contains(got[0], "runtime.gopanic") || strings.Contains(got[0], "write\\n") {
			t.Errorf("the stack begins above the panic: %s", got[0])
		}
		again()
		if got := lines(); len(got) != 1 || len(got[0]) > 12<<10 {
			t.Errorf("another panic made %d lines of %d bytes", len(got), len(got[0]))
		}
		time.Sleep(2 * time.Minute)
		once()
		once()
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "times=1001") || strings.Contains(got[0], "stack=") {
			t.Errorf("two minutes later: %q", got)
		}
		time.Sleep(time.Hour)
		once()
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "times=1003") || !strings.Contains(got[0], "stack=") {
			t.Errorf("an hour later: %q", got)
		}
	})
}

func TestServe(t *testing.T) {
	before := Count(ComponentRequest)
	values := map[string]any{"/": "boom", "/abort": http.ErrAbortHandler}
	server := httptest.NewServer(Serve(nil, ComponentRequest, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { panic(values[r.URL.Path]) })))
	defer server.Close()
	for path := range values {
		if _, err := http.Get(server.URL + path); err == nil {
			t.Errorf("%s was answered", path)
		}
	}
	if n := Count(ComponentRequest) - before; n != 1 {
		t.Errorf("%d were counted, want the one that was not on purpose", n)
	}
}

func BenchmarkDo(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Do(nil, Watch, func() {})
	}
}
