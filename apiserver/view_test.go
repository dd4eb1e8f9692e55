package apiserver_test

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// newStyle is an event as events.k8s.io/v1 clients send it.
func newStyle(name, about string) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"of": about}},
		EventTime:           metav1.NowMicro(),
		ReportingController: "example.com/tester", ReportingInstance: "tester-1",
		Action: "Testing", Reason: "Tested", Type: corev1.EventTypeNormal, Note: "all is well",
		Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: about},
	}
}

// TestView writes and reads events through both of their groups: what one writes the other sees, in its own shape.
func TestView(t *testing.T) {
	_, raw, clients := start(t)
	ctx := t.Context()
	namespace(t, clients, "default")
	events, old := clients.EventsV1().Events("default"), clients.CoreV1().Events("default")

	w, err := events.Watch(ctx, metav1.ListOptions{FieldSelector: "regarding.name=b"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	next := func(want watch.EventType) *eventsv1.Event {
		t.Helper()
		ev := <-w.ResultChan()
		got, ok := ev.Object.(*eventsv1.Event)
		if !ok || ev.Type != want {
			t.Fatalf("got %s %T, want %s", ev.Type, ev.Object, want)
		}
		return got
	}

	if _, err := events.Create(ctx, newStyle("a", "a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	created, err := events.Create(ctx, newStyle("b", "b"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if created.Note != "all is well" || created.ResourceVersion == "" {
		t.Errorf("created %+v", created)
	}
	if got := next(watch.Added); got.Name != "b" || got.Note != "all is well" || got.ResourceVersion != created.ResourceVersion {
		t.Errorf("watched %+v", got)
	}

	stored, err := old.Get(ctx, "b", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stored.Message != "all is well" || stored.InvolvedObject.Name != "b" || stored.UID != created.UID {
		t.Errorf("as core/v1: %+v", stored)
	}
	stored.Count, stored.Source.Component = 3, "old"
	if _, err := old.Update(ctx, stored, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := next(watch.Modified); got.DeprecatedCount != 3 || got.DeprecatedSource.Component != "old" {
		t.Errorf("watched %+v", got)
	}

	series := `{"series":{"count":2,"lastObservedTime":"2026-01-01T00:00:00.000000Z"}}`
	for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
		if got, err := events.Patch(ctx, "b", kind, []byte(series), metav1.PatchOptions{}); err != nil || got.Series == nil || got.Series.Count != 2 {
			t.Fatalf("patched: %v, %v", got, err)
		}
	}
	next(watch.Modified) // the second patch changed nothing
	if got, err := old.Get(ctx, "b", metav1.GetOptions{}); err != nil || got.Series == nil || got.Series.Count != 2 {
		t.Errorf("as core/v1 after a patch: %v, %v", got, err)
	}

	_, err = events.Patch(ctx, "b", types.MergePatchType, []byte(`{"note":"other"}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("changed note: %v", err)
	}
	loose := newStyle("c", "c")
	loose.EventTime = metav1.MicroTime{}
	if _, err := events.Create(ctx, loose, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("event without a time: %v", err)
	}

	for selector, want := range map[string]int{"": 2, "regarding.name=b": 1, "reportingController=example.com/tester": 2, "reason!=Tested": 0} {
		list, err := events.List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil || len(list.Items) != want {
			t.Fatalf("list of %q: %v, %v", selector, list, err)
		}
	}
	for _, path := range []string{
		"/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Db",
		"/api/v1/namespaces/default/events?fieldSelector=regarding.name%3Db",
	} {
		if r := raw.get(path); r.code != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, r.code, r.body)
		}
	}

	const base = "/apis/events.k8s.io/v1/namespaces/default/events"
	var l list
	raw.get(base).into(&l)
	if l.Kind != "EventList" || l.APIVersion != "events.k8s.io/v1" || len(l.Items) != 2 {
		t.Errorf("list %+v", l)
	}
	var table metav1.Table
	raw.get(base, "Accept: application/json;as=Table;v=v1;g=meta.k8s.io").into(&table)
	if len(table.Rows) != 2 || table.Rows[1].Cells[3] != "pod/b" || table.Rows[1].Cells[2] != "Tested" {
		t.Errorf("table %+v", table.Rows)
	}
	var partial metav1.PartialObjectMetadataList
	raw.get(base+"?labelSelector=of%3Da", "Accept: application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io").into(&partial)
	if len(partial.Items) != 1 || partial.Items[0].Name != "a" {
		t.Errorf("metadata %+v", partial.Items)
	}

	if err := events.Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := next(watch.Deleted); got.Name != "b" || got.Series == nil {
		t.Errorf("watched %+v", got)
	}
	if err := events.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "regarding.name=a"}); err != nil {
		t.Fatal(err)
	}
	if left, err := old.List(ctx, metav1.ListOptions{}); err != nil || len(left.Items) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
