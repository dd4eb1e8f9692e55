package events

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds"
	"vigil/kinds/core"
	"vigil/kinds/kindtest"
)

const minimal = `{metadata: {name: x, namespace: ns}, eventTime: "2026-01-01T12:00:00.000000Z", reportingController: example.com/c, reportingInstance: c-1, action: A, reason: R, type: Normal, regarding: {kind: Pod, name: p, namespace: ns}}`

// view is the row as a table completes it.
func view(t *testing.T) *kinds.Kind {
	t.Helper()
	row := Event()
	kinds.NewTable(core.Event(0), row)
	return row
}

func TestEvent_Rules(t *testing.T) {
	row := view(t)
	good := kindtest.From[*eventsv1.Event](t, row, minimal)
	c := func(name, patch string, want ...string) kindtest.Case[eventsv1.Event] {
		return kindtest.YAML[eventsv1.Event](t, name, patch, want...)
	}
	kindtest.Create(t, row, good,
		c("type", `{type: Odd}`, `type: Invalid value: "": has invalid value: Odd`),
		c("no controller", `{reportingController: "", reportingInstance: "", action: "", reason: ""}`,
			"reportingController: Required value",
			`reportingController: Invalid value: "": name part must be non-empty`,
			`reportingController: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			"reportingInstance: Required value", "action: Required value", "reason: Required value"),
		c("deprecated", `{deprecatedCount: 2, deprecatedSource: {component: c}, deprecatedFirstTimestamp: "2026-01-01T12:00:00Z", deprecatedLastTimestamp: "2026-01-01T12:00:00Z"}`,
			`firstTimestamp: Invalid value: "": needs to be unset`, `lastTimestamp: Invalid value: "": needs to be unset`,
			`count: Invalid value: "": needs to be unset`, `source: Invalid value: "": needs to be unset`),
		c("series", `{series: {count: 1, lastObservedTime: null}}`, `series.count: Invalid value: "": should be at least 2`, "series.lastObservedTime: Required value"),
	)
	kindtest.Update(t, row, good,
		c("series", `{series: {count: 2, lastObservedTime: "2026-01-01T12:00:00.000000Z"}}`),
		c("bad series", `{series: {count: 1, lastObservedTime: "2026-01-01T12:00:00.000000Z"}}`, `series.count: Invalid value: "": should be at least 2`),
		c("fixed", `{note: other, action: B, type: Warning}`,
			`message: Invalid value: "other": field is immutable`, `type: Invalid value: "Warning": field is immutable`, `action: Invalid value: "B": field is immutable`),
	)
}

// Nothing gets lost on the way to core/v1 and back.
func TestEvent_Conversion(t *testing.T) {
	at := metav1.NowMicro()
	in := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "x"}, EventTime: at, Series: &eventsv1.EventSeries{Count: 2, LastObservedTime: at},
		ReportingController: "c", ReportingInstance: "i", Action: "a", Reason: "r", Regarding: corev1.ObjectReference{Name: "p"},
		Related: &corev1.ObjectReference{Name: "q"}, Note: "n", Type: "Normal", DeprecatedSource: corev1.EventSource{Component: "s"},
		DeprecatedFirstTimestamp: metav1.Now(), DeprecatedLastTimestamp: metav1.Now(), DeprecatedCount: 3,
	}
	if diff := cmp.Diff(in, fromCore(toCore(in))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
