package managed

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"vigil/kinds"
)

// FuzzApply applies what one manager wants, and then what another wants, to a pod: nothing panics, what has been applied is
// there, applying it again changes nothing, and whoever forces his fields gets them.
func FuzzApply(f *testing.F) {
	f.Add([]byte("metadata: {labels: {a: b}}\nspec:\n  containers:\n  - {name: c, image: i, ports: [{containerPort: 80}, {containerPort: 80, protocol: UDP}]}\n"),
		[]byte(`{"spec":{"containers":[{"name":"c","image":"j"},{"name":"d"}],"nodeSelector":{"x":"y"}}}`))
	f.Add([]byte("spec: {containers: [{name: c}, {name: c}], tolerations: [{key: a}, {key: a}]}"), []byte("spec: {containers: null}"))
	f.Add([]byte("metadata: {finalizers: [a/b, c/d], managedFields: []}"), []byte("metadata: {finalizers: [c/d], name: 7, ownerReferences: [{uid: 1}]}"))
	f.Add([]byte("status: {podIPs: [{ip: a}]}\nspec: {imagePullSecrets: [{}]}"), []byte("x: 1e400"))
	gvk := corev1.SchemeGroupVersion.WithKind("Pod")
	track := tracker(gvk, "", "status")
	read := func(data []byte) map[string]any {
		text, err := yaml.YAMLToJSON(data)
		if err != nil {
			return nil
		}
		var body map[string]any
		if json.Unmarshal(text, &body) != nil || body == nil {
			return nil
		}
		body["apiVersion"], body["kind"] = "v1", "Pod"
		return wholeNumbers(body).(map[string]any)
	}
	f.Fuzz(func(t *testing.T, one, other []byte) {
		mine, theirs := read(one), read(other)
		if mine == nil || theirs == nil {
			return
		}
		first, err := track.Apply(track.Empty(), runtime.DeepCopyJSON(mine), "one", false)
		if err != nil {
			return
		}
		again, err := track.Apply(first.DeepCopyObject().(kinds.Object), runtime.DeepCopyJSON(mine), "one", false)
		if err != nil {
			t.Fatalf("the second time: %v", err)
		}
		if got, want := withoutTimes(t, again), withoutTimes(t, first); got != want {
			t.Fatalf("the second time\ngot  %s\nwant %s", got, want)
		}
		polite, err := track.Apply(first.DeepCopyObject().(kinds.Object), runtime.DeepCopyJSON(theirs), "other", false)
		forced, forcedErr := track.Apply(first.DeepCopyObject().(kinds.Object), runtime.DeepCopyJSON(theirs), "other", true)
		if err == nil && forcedErr != nil {
			t.Fatalf("with force: %v", forcedErr)
		}
		if err == nil {
			if got, want := withoutTimes(t, forced), withoutTimes(t, polite); got != want {
				t.Fatalf("without conflicts force changes something\ngot  %s\nwant %s", got, want)
			}
		}
		if forcedErr != nil {
			return
		}
		if _, err := track.Apply(forced, runtime.DeepCopyJSON(theirs), "other", false); err != nil {
			t.Fatalf("what was forced is not owned: %v", err)
		}
	})
}

// wholeNumbers makes integers of the numbers that are some, as the server's own decoder does.
func wholeNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = wholeNumbers(value)
		}
	case []any:
		for i, value := range v {
			v[i] = wholeNumbers(value)
		}
	case float64:
		if n := int64(v); float64(n) == v {
			return n
		}
	}
	return v
}

// withoutTimes is an object as JSON, without the times of its managed fields.
func withoutTimes(t *testing.T, obj kinds.Object) string {
	obj = obj.DeepCopyObject().(kinds.Object)
	var entries []metav1.ManagedFieldsEntry
	for _, e := range obj.GetManagedFields() {
		e.Time = nil
		entries = append(entries, e)
	}
	obj.SetManagedFields(entries)
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
