package events

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/core"
	"vigil/object"
)

// Event is the row of events in the shape of events.k8s.io/v1, stored as core/v1. What is written in this shape is held
// to stricter rules.
func Event() *kinds.Kind {
	return &kinds.Kind{
		GVK:        eventsv1.SchemeGroupVersion.WithKind("Event"),
		Resource:   "events",
		Singular:   "event",
		ShortNames: []string{"ev"},
		Namespaced: true,
		Type: &object.Type{
			APIVersion: "events.k8s.io/v1", Kind: "Event", Namespaced: true,
			New: func() runtime.Object { return &eventsv1.Event{} },
		},
		New:     func() kinds.Object { return &eventsv1.Event{} },
		NewList: func() runtime.Object { return &eventsv1.EventList{} },
		View: &kinds.View{
			Of: corev1.SchemeGroupVersion.WithKind("Event"),
			FromStored: func(obj kinds.Object) (kinds.Object, error) {
				return fromCore(obj.(*corev1.Event)), nil
			},
			ToStored: func(obj kinds.Object) (kinds.Object, error) { return toCore(obj.(*eventsv1.Event)), nil },
			Fields:   selectable(),
		},
		Validate: func(obj kinds.Object) field.ErrorList { return validateNew(toCore(obj.(*eventsv1.Event))) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateUpdate(toCore(obj.(*eventsv1.Event)), toCore(old.(*eventsv1.Event)))
		},
	}
}

// selectable are the selectable fields with core/v1's labels for them.
func selectable() map[string]string {
	labels := map[string]string{
		"reason": "reason", "reportingController": "reportingComponent", "type": "type",
	}
	for _, part := range []string{"kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"} {
		labels["regarding."+part] = "involvedObject." + part
	}
	return labels
}

func fromCore(in *corev1.Event) *eventsv1.Event {
	out := &eventsv1.Event{
		ObjectMeta:               in.ObjectMeta,
		EventTime:                in.EventTime,
		ReportingController:      in.ReportingController,
		ReportingInstance:        in.ReportingInstance,
		Action:                   in.Action,
		Reason:                   in.Reason,
		Regarding:                in.InvolvedObject,
		Related:                  in.Related,
		Note:                     in.Message,
		Type:                     in.Type,
		DeprecatedSource:         in.Source,
		DeprecatedFirstTimestamp: in.FirstTimestamp,
		DeprecatedLastTimestamp:  in.LastTimestamp,
		DeprecatedCount:          in.Count,
	}
	if s := in.Series; s != nil {
		out.Series = &eventsv1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
	return out
}

func toCore(in *eventsv1.Event) *corev1.Event {
	out := &corev1.Event{
		ObjectMeta:          in.ObjectMeta,
		EventTime:           in.EventTime,
		ReportingController: in.ReportingController,
		ReportingInstance:   in.ReportingInstance,
		Action:              in.Action,
		Reason:              in.Reason,
		InvolvedObject:      in.Regarding,
		Related:             in.Related,
		Message:             in.Note,
		Type:                in.Type,
		Source:              in.DeprecatedSource,
		FirstTimestamp:      in.DeprecatedFirstTimestamp,
		LastTimestamp:       in.DeprecatedLastTimestamp,
		Count:               in.DeprecatedCount,
	}
	if s := in.Series; s != nil {
		out.Series = &corev1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
	}
	return out
}

// validateNew checks a new event. Paths are core/v1's, as upstream's are.
func validateNew(ev *corev1.Event) field.ErrorList {
	errs := append(core.ValidateEvent(ev), validateSeries(ev.Series)...)
	if ev.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if ev.Type != corev1.EventTypeNormal && ev.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", fmt.Sprintf("has invalid value: %v", ev.Type)))
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"firstTimestamp", !ev.FirstTimestamp.IsZero()},
		{"lastTimestamp", !ev.LastTimestamp.IsZero()},
		{"count", ev.Count != 0},
		{"source", ev.Source != corev1.EventSource{}},
	} {
		if f.set {
			errs = append(errs, field.Invalid(field.NewPath(f.name), "", "needs to be unset"))
		}
	}
	return errs
}

// validateUpdate lets only the series and the metadata of an event change.
func validateUpdate(ev, old *corev1.Event) field.ErrorList {
	errs := core.ValidateEvent(ev)
	if !equality.Semantic.DeepEqual(ev.Series, old.Series) {
		errs = append(errs, validateSeries(ev.Series)...)
	}
	for _, f := range []struct {
		name     string
		new, old any
	}{
		{"involvedObject", ev.InvolvedObject, old.InvolvedObject},
		{"reason", ev.Reason, old.Reason},
		{"message", ev.Message, old.Message},
		{"source", ev.Source, old.Source},
		{"firstTimestamp", ev.FirstTimestamp, old.FirstTimestamp},
		{"lastTimestamp", ev.LastTimestamp, old.LastTimestamp},
		{"count", ev.Count, old.Count},
		{"reason", ev.Reason, old.Reason}, // upstream says it twice
		{"type", ev.Type, old.Type},
		{"eventTime", ev.EventTime, old.EventTime},
		{"action", ev.Action, old.Action},
		{"related", ev.Related, old.Related},
		{"reportingController", ev.ReportingController, old.ReportingController},
		{"reportingInstance", ev.ReportingInstance, old.ReportingInstance},
	} {
		errs = append(errs, apivalidation.ValidateImmutableField(f.new, f.old, field.NewPath(f.name))...)
	}
	return errs
}

func validateSeries(s *corev1.EventSeries) field.ErrorList {
	var errs field.ErrorList
	if s == nil {
		return nil
	}
	if s.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if s.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}
