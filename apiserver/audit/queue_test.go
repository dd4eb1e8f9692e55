package audit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
)

// memory is a backend that keeps what it gets, as batches of ids. It can be made to hold on, and to fail.
type memory struct {
	hold chan struct{} // each write takes one; nil: none waits

	mu      sync.Mutex
	fail    error
	batches [][]string
	events  []auditapi.Event
	closed  bool
}

func (m *memory) write(ctx context.Context, events []auditapi.Event) error {
	if m.hold != nil {
		select {
		case <-m.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	var ids []string
	for i := range events {
		ids = append(ids, string(events[i].AuditID))
	}
	m.batches, m.events = append(m.batches, ids), append(m.events, events...)
	return nil
}

func (m *memory) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

func (m *memory) ids() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Concat(m.batches...)
}

func event(id string, body int) *auditapi.Event {
	e := &auditapi.Event{AuditID: types.UID(id), Stage: auditapi.StageResponseComplete}
	if body > 0 {
		e.RequestObject = &runtime.Unknown{Raw: []byte(`"` + strings.Repeat("x", body) + `"`), ContentType: runtime.ContentTypeJSON}
	}
	return e
}

func auditor(t *testing.T, q Queue, b backend) *Auditor {
	t.Helper()
	a := &Auditor{metrics: newMetrics(nil), log: slog.New(slog.DiscardHandler)}
	if err := a.add("test", q, b); err != nil {
		t.Fatal(err)
	}
	return a
}

// TestQueue_Full: a backend that is slow holds up no request. What does not fit is lost and counted, all else arrives in order, at the
// latest when the server ends.
func TestQueue_Full(t *testing.T) {
	m := &memory{hold: make(chan struct{})}
	a := auditor(t, Queue{BufferSize: 3, MaxBatchSize: 2}, m)
	sink := a.sinks[0]
	var accepted []string
	for _, id := range []string{"a", "b", "c", "d", "e"} { // nobody takes them yet
		if sink.process(event(id, 0)) {
			accepted = append(accepted, id)
		}
	}
	if lost := testutil.ToFloat64(a.metrics.errors.WithLabelValues("buffered")); lost != 2 || len(accepted) != 3 {
		t.Errorf("%v were taken and %v lost, want 3 and 2", accepted, lost)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sink.run(ctx) }()
	cancel()
	close(m.hold)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := m.ids(); !slices.Equal(got, accepted) || !m.closed {
		t.Errorf("delivered %v, want %v; closed: %v", got, accepted, m.closed)
	}
	for _, batch := range m.batches {
		if len(batch) > 2 {
			t.Errorf("a batch of %d, want 2 at most", len(batch))
		}
	}
}

// TestQueue_Fails: what a backend refuses is counted. Only in mode blocking-strict a request is held back by that.
func TestQueue_Fails(t *testing.T) {
	for mode, strict := range map[Mode]bool{Blocking: false, BlockingStrict: true} {
		m := &memory{fail: errors.New("full")}
		a := auditor(t, Queue{Mode: mode}, m)
		if a.sinks[0].process(event("a", 0)) {
			t.Errorf("%s: an event counts as delivered that was not", mode)
		}
		if lost := testutil.ToFloat64(a.metrics.errors.WithLabelValues("test")); lost != 1 {
			t.Errorf("%s: %v lost, want 1", mode, lost)
		}
		if a.sinks[0].strict() != strict {
			t.Errorf("%s: strict is %v", mode, !strict)
		}
		m.fail = nil
		if !a.sinks[0].process(event("b", 0)) || !slices.Equal(m.ids(), []string{"b"}) {
			t.Errorf("%s: delivered %v, want b", mode, m.ids())
		}
	}
	if err := new(Auditor).add("test", Queue{Mode: "fast"}, &memory{}); err == nil || !strings.Contains(err.Error(), `mode "fast" is not known`) {
		t.Errorf("an unknown mode: %v", err)
	}
}

// TestTruncate: a large event goes without its objects, and says so; one that is large without them is lost; batches are cut where they
// would become too large. The event itself, which other backends share, stays as it is.
func TestTruncate(t *testing.T) {
	m := &memory{}
	small, err := encodedBytes(event("s", 0))
	if err != nil {
		t.Fatal(err)
	}
	lost := 0
	tr := &truncating{backend: m, limits: Truncate{MaxEventSize: 2000, MaxBatchSize: 2*small + 1}, lost: func(n int) { lost += n }}
	large, hopeless := event("l", 3000), event("h", 0)
	hopeless.RequestURI = strings.Repeat("u", 3000)
	if err := tr.write(t.Context(), []auditapi.Event{*event("a", 0), *event("b", 0), *event("c", 0), *hopeless, *large}); err != nil {
		t.Fatal(err)
	}
	if got := m.ids(); !slices.Equal(got, []string{"a", "b", "c", "l"}) || lost != 1 {
		t.Errorf("delivered %v, lost %d", got, lost)
	}
	if len(m.batches) != 3 || len(m.batches[0]) != 2 {
		t.Errorf("batches %v, want a and b together and the others alone", m.batches)
	}
	if e := m.events[len(m.events)-1]; e.RequestObject != nil || e.Annotations["audit.k8s.io/truncated"] != "true" {
		t.Errorf("a large event has object %v, annotations %v", e.RequestObject, e.Annotations)
	}
	if large.RequestObject == nil || large.Annotations != nil {
		t.Error("the event itself was changed")
	}
}
