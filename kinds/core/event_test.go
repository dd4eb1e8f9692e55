package core

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestEvent_Validate(t *testing.T) {
	event := func(namespace, about string, change ...func(*corev1.Event)) *corev1.Event {
		ev := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}, InvolvedObject: corev1.ObjectReference{Namespace: about}}
		for _, f := range change {
			f(ev)
		}
		return ev
	}
	newStyle := func(ev *corev1.Event) {
		ev.EventTime = metav1.NowMicro()
		ev.ReportingController, ev.ReportingInstance, ev.Action, ev.Reason = "example.com/x", "x-1", "Binding", "Bound"
	}
	for name, tc := range map[string]struct {
		event *corev1.Event
		want  []string
	}{
		"same namespace":          {event: event("a", "a")},
		"other namespace":         {event: event("a", "b"), want: []string{`involvedObject.namespace: Invalid value: "b": does not match event.namespace`}},
		"cluster-scoped, default": {event: event("default", "")},
		"cluster-scoped, system":  {event: event("kube-system", ""), want: []string{`involvedObject.namespace: Invalid value: "": does not match event.namespace`}},
		"new style, system":       {event: event("kube-system", "", newStyle)},
		"cluster-scoped, other":   {event: event("a", ""), want: []string{`involvedObject.namespace: Invalid value: "": does not match event.namespace`}},
		"old style":               {event: event("a", "a", func(ev *corev1.Event) { ev.Message = strings.Repeat("x", 5000) })},
		"new style":               {event: event("a", "a", newStyle)},
		"new style, nothing set": {
			event: event("a", "a", func(ev *corev1.Event) { ev.EventTime = metav1.NowMicro() }),
			want: []string{
				"reportingController: Required value",
				`reportingController: Invalid value: "": name part must be non-empty`,
				`reportingController: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
				"reportingInstance: Required value",
				"action: Required value",
				"reason: Required value",
			},
		},
		"new style, too long": {
			event: event("a", "a", newStyle, func(ev *corev1.Event) {
				long := strings.Repeat("x", 129)
				ev.ReportingInstance, ev.Action, ev.Reason, ev.Message = long, long, long, strings.Repeat(long, 8)
			}),
			want: []string{
				`reportingInstance: Invalid value: "": can have at most 128 characters`,
				`action: Invalid value: "": can have at most 128 characters`,
				`reason: Invalid value: "": can have at most 128 characters`,
				`message: Invalid value: "": can have at most 1024 characters`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) { wantErrors(t, Event(0).Validate(tc.event), tc.want...) })
	}
}

func TestEvent_Row(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, tc := range map[string]struct {
		event corev1.Event
		want  []any
	}{
		"old style": {
			event: corev1.Event{
				ObjectMeta:     metav1.ObjectMeta{Name: "e"},
				InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "p", FieldPath: "spec.containers{c}"},
				Type:           "Normal", Reason: "Pulled", Message: " done\n", Count: 3,
				Source:         corev1.EventSource{Component: "kubelet", Host: "n1"},
				FirstTimestamp: metav1.NewTime(ago(time.Hour)), LastTimestamp: metav1.NewTime(ago(time.Minute)),
			},
			want: []any{"60s", "Normal", "Pulled", "pod/p", "spec.containers{c}", "kubelet, n1", "done", "60m", int64(3), "e"},
		},
		"new style": {
			event: corev1.Event{
				InvolvedObject: corev1.ObjectReference{Kind: "Node"}, EventTime: metav1.NewMicroTime(ago(time.Minute)),
				ReportingController: "c", ReportingInstance: "c-1",
			},
			want: []any{"60s", "", "", "node", "", "c, c-1", "", "60s", int64(1), ""},
		},
		"series": {
			event: corev1.Event{
				InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "n"}, EventTime: metav1.NewMicroTime(ago(time.Hour)),
				Series: &corev1.EventSeries{Count: 9, LastObservedTime: metav1.NewMicroTime(ago(time.Second))},
			},
			want: []any{"1s", "", "", "node/n", "", "", "", "60m", int64(9), ""},
		},
		"no times": {want: []any{"<unknown>", "", "", "", "", "", "", "<unknown>", int64(1), ""}},
	} {
		t.Run(name, func(t *testing.T) { wantSame(t, "row", tc.want, Event(0).Row(&tc.event, now)) })
	}
}

func TestEvent_TTL(t *testing.T) {
	if ttl := Event(0).TTL(&corev1.Event{}); ttl != time.Hour {
		t.Errorf("events are kept for %s", ttl)
	}
}
