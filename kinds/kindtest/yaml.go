package kindtest

import (
	"encoding/json"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"sigs.k8s.io/yaml"

	"vigil/kinds"
)

// From decodes YAML (without apiVersion and kind) into an object of a row and fills in its defaults.
func From[P kinds.Object](t *testing.T, row *kinds.Kind, text string) P {
	t.Helper()
	obj := decode(t, row, text).(P)
	if row.Default != nil {
		row.Default(obj)
	}
	return obj
}

// YAML is a case whose edit is a merge patch in YAML: lists are replaced, null removes, what is not named stays.
func YAML[T any](t *testing.T, name, patch string, want ...string) Case[T] {
	return Case[T]{Name: name, Want: want, Edit: Over[T](t, patch)}
}

// Over returns a function that applies a merge patch in YAML to an object.
func Over[T any](t *testing.T, patch string) func(*T) {
	return func(obj *T) {
		t.Helper()
		before, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		change, err := yaml.YAMLToJSONStrict([]byte(patch))
		if err != nil {
			t.Fatalf("%v in:\n%s", err, patch)
		}
		after, err := jsonpatch.MergePatch(before, change)
		if err != nil {
			t.Fatalf("%v in:\n%s", err, patch)
		}
		var changed T
		if err := yaml.UnmarshalStrict(after, &changed); err != nil {
			t.Fatalf("%v in:\n%s", err, patch)
		}
		*obj = changed
	}
}
