package apiserver_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// TestControllerRevision_Spaces: the data of a revision may have been written with spaces and in any order. Whoever applies the same data, or sends back what was read, has changed nothing
// of it, and the bytes stay.
func TestControllerRevision_Spaces(t *testing.T) {
	s, c, k := start(t)
	namespace(t, k, "a")
	revisions := k.AppsV1().ControllerRevisions("a")
	const collection = "/apis/apps/v1/namespaces/a/controllerrevisions"
	const spaced = `{ "spec" : { "z": [1, 2.0,  "x y"], "a": {"n": null} } }`
	manifest := func(data, number string) string {
		return `{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"r"},"revision":` + number + `,"data":` + data + `}`
	}
	stored := func() string {
		t.Helper()
		found, err := s.Store.Get(t.Context(), s.Store.Prefix()+"controllerrevisions/a/r")
		if err != nil {
			t.Fatal(err)
		}
		object := &appsv1.ControllerRevision{}
		unknown := runtime.Unknown{}
		if err := unknown.Unmarshal(found.Value[4:]); err != nil {
			t.Fatal(err)
		}
		if err := object.Unmarshal(unknown.Raw); err != nil {
			t.Fatal(err)
		}
		return string(object.Data.Raw)
	}
	if r := c.do("POST", collection, manifest(spaced, "1"), "Content-Type: application/json"); r.code != 201 {
		t.Fatalf("%d %s", r.code, r.body)
	}
	was := stored()
	for what, data := range map[string]string{"the same": spaced, "without spaces": `{"spec":{"z":[1,2.0,"x y"],"a":{"n":null}}}`, "in another order": `{"spec":{"a":{"n":null},"z":[1,2,"x y"]}}`} {
		for _, force := range []bool{false, true} {
			if _, err := revisions.Patch(t.Context(), "r", types.ApplyPatchType, []byte(manifest(data, "1")), metav1.PatchOptions{FieldManager: "x", Force: &force}); err != nil {
				t.Errorf("apply %s, by force %t: %v", what, force, err)
			}
		}
	}
	read, err := revisions.Get(t.Context(), "r", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	read.Revision = 2
	if read, err = revisions.Update(t.Context(), read, metav1.UpdateOptions{}); err != nil || read.Revision != 2 {
		t.Errorf("update of what was read: %v", err)
	}
	if r := c.do("PUT", collection+"/r", manifest(`{"spec":{"a":{"n":null},"z":[1,2,"x y"]}}`, "3"), "Content-Type: application/json"); r.code != 200 {
		t.Errorf("update: %d %s", r.code, r.body)
	}
	if got := stored(); got != was {
		t.Errorf("stored is %q, was %q", got, was)
	}
	for _, data := range []string{`{"spec":{"z":[2,1,"x y"],"a":{"n":null}}}`, `{"spec":{"z":[1,2,"xy"],"a":{"n":null}}}`, `{"spec":{"z":[1,2,"x y"],"a":{}}}`, `{"spec":{"z":[1,2.5,"x y"],"a":{"n":null}}}`} {
		_, err := revisions.Patch(t.Context(), "r", types.ApplyPatchType, []byte(manifest(data, "3")), metav1.PatchOptions{FieldManager: "y", Force: new(true)})
		if !apierrors.IsInvalid(err) {
			t.Errorf("apply %s: %v", data, err)
		}
	}
}
