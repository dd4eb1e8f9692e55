package core

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// defaultEventTTL is upstream's default of --event-ttl.
const defaultEventTTL = time.Hour

// Event is the row of events in the shape of core/v1. ttl is how long they are kept, 0 is an hour.
func Event(ttl time.Duration) *kinds.Kind {
	if ttl == 0 {
		ttl = defaultEventTTL
	}
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("Event"),
		Resource:   "events",
		Singular:   "event",
		ShortNames: []string{"ev"},
		Namespaced: true,
		Path:       "events",
		Type: &object.Type{
			APIVersion: "v1", Kind: "Event", Namespaced: true,
			New:    func() runtime.Object { return &corev1.Event{} },
			Fields: eventFields(),
		},
		UnknownField: kinds.UnknownField,
		New:          func() kinds.Object { return &corev1.Event{} },
		NewList:      func() runtime.Object { return &corev1.EventList{} },

		Validate: func(obj kinds.Object) field.ErrorList { return ValidateEvent(obj.(*corev1.Event)) },

		AllowCreateOnUpdate: true,
		UnconditionalUpdate: true,
		Dependents:          kinds.Dependents{None: true},
		TTL:                 func(kinds.Object) time.Duration { return ttl },

		Columns: eventColumns(),
		Row:     func(obj kinds.Object, now time.Time) []any { return eventRow(obj.(*corev1.Event), now) },
	}
}

var (
	sourceComponent    = object.Field{Label: "source.component", Proto: []int32{5, 1}}
	reportingComponent = object.Field{Label: "reportingComponent", Proto: []int32{14}}
)

// eventSource is who reported the event, in the old place or in the new one.
func eventSource(v *object.Version) string {
	return column.Or(v.FieldAt(&sourceComponent), v.FieldAt(&reportingComponent))
}

// eventFields are the selectable fields; 2 is involvedObject.
func eventFields() []object.Field {
	return []object.Field{
		{Label: "involvedObject.kind", Proto: []int32{2, 1}},
		{Label: "involvedObject.namespace", Proto: []int32{2, 2}},
		{Label: "involvedObject.name", Proto: []int32{2, 3}},
		{Label: "involvedObject.uid", Proto: []int32{2, 4}},
		{Label: "involvedObject.apiVersion", Proto: []int32{2, 5}},
		{Label: "involvedObject.resourceVersion", Proto: []int32{2, 6}},
		{Label: "involvedObject.fieldPath", Proto: []int32{2, 7}},
		{Label: "reason", Proto: []int32{3}},
		reportingComponent,
		{Label: "source", Get: eventSource},
		{Label: "type", Proto: []int32{9}},
	}
}

// Limits of new-style events, in bytes (KEP-383).
const (
	eventNameLimit = 128
	eventNoteLimit = 1024
)

// ValidateEvent holds events to the namespace of what they are about (default for cluster-scoped objects), and those of
// the new style, which have an eventTime, to KEP-383's required fields and lengths. It is all that is checked of an event
// that comes as core/v1, and a part of what is checked of one that comes as events.k8s.io/v1.
func ValidateEvent(ev *corev1.Event) field.ErrorList {
	var errs field.ErrorList
	about := ev.InvolvedObject.Namespace
	elsewhere := func() {
		errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"), about, "does not match event.namespace"))
	}
	if ev.EventTime.IsZero() {
		if about != ev.Namespace && (about != "" || ev.Namespace != metav1.NamespaceDefault) {
			elsewhere()
		}
		return errs
	}
	// New-style events may be about an object of another namespace.
	if about == "" && ev.Namespace != metav1.NamespaceDefault && ev.Namespace != metav1.NamespaceSystem {
		elsewhere()
	}

	controller := field.NewPath("reportingController")
	if ev.ReportingController == "" {
		errs = append(errs, field.Required(controller, ""))
	}
	for _, text := range validation.IsQualifiedName(ev.ReportingController) {
		errs = append(errs, field.Invalid(controller, ev.ReportingController, text))
	}
	limit := func(value, name string, bytes int) {
		if len(value) > bytes {
			errs = append(errs, field.Invalid(field.NewPath(name), "", fmt.Sprintf("can have at most %v characters", bytes)))
		}
	}
	for _, f := range []struct{ name, value string }{
		{"reportingInstance", ev.ReportingInstance}, {"action", ev.Action}, {"reason", ev.Reason},
	} {
		if f.value == "" {
			errs = append(errs, field.Required(field.NewPath(f.name), ""))
		}
		limit(f.value, f.name, eventNameLimit)
	}
	limit(ev.Message, "message", eventNoteLimit)
	return errs
}

func eventColumns() []metav1.TableColumnDefinition {
	doc := corev1.Event{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		column.Text("Last Seen", doc["lastTimestamp"]),
		column.Text("Type", doc["type"]),
		column.Text("Reason", doc["reason"]),
		column.Text("Object", doc["involvedObject"]),
		column.Wide(column.Text("Subobject", corev1.ObjectReference{}.SwaggerDoc()["fieldPath"])),
		column.Wide(column.Text("Source", doc["source"])),
		column.Text("Message", doc["message"]),
		column.Wide(column.Text("First Seen", doc["firstTimestamp"])),
		column.Wide(column.Text("Count", doc["count"])),
		column.Wide(column.Name()),
	}
}

func eventRow(ev *corev1.Event, now time.Time) []any {
	first := column.Since(ev.FirstTimestamp, now)
	if ev.FirstTimestamp.IsZero() {
		first = column.SinceMicro(ev.EventTime, now)
	}
	last, count := column.Since(ev.LastTimestamp, now), ev.Count
	if ev.LastTimestamp.IsZero() {
		last = first
	}
	if ev.Series != nil {
		last, count = column.SinceMicro(ev.Series.LastObservedTime, now), ev.Series.Count
	} else if count == 0 {
		count = 1 // new-style events that happened once have no count
	}

	target := strings.ToLower(ev.InvolvedObject.Kind)
	if ev.InvolvedObject.Name != "" {
		target += "/" + ev.InvolvedObject.Name
	}
	source := column.Or(ev.Source.Component, ev.ReportingController)
	if host := column.Or(ev.Source.Host, ev.ReportingInstance); host != "" {
		source += ", " + host
	}
	return []any{
		last, ev.Type, ev.Reason, target, ev.InvolvedObject.FieldPath, source, strings.TrimSpace(ev.Message), first,
		int64(count), ev.Name,
	}
}
