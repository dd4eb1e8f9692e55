// Package kindtest checks rows of the table: that a minimal object comes back with its defaults, that each rule refuses
// what it should with the path and text that clients see, what an update may change, what a table shows. It runs a
// row's hooks in the order in which apiserver/write does, without a server.
package kindtest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"vigil/kinds"
	"vigil/object"
)

// Case is a change of a good object, and the errors that the row finds then, as clients read them; none when the change
// is fine. A change that a Prepare hook takes back is one that is not seen.
type Case[T any] struct {
	Name string
	Edit func(obj *T)
	Want []string
}

// hooked is a pointer to an API type T.
type hooked[T any] interface {
	*T
	kinds.Object
}

// Minimal decodes in (YAML without apiVersion and kind) as a client sends it, creates it and compares what is stored
// then with want. What a create must not be refused, so in has to be valid.
func Minimal(t *testing.T, row *kinds.Kind, in, want string) {
	t.Helper()
	obj, expected := decode(t, row, in), decode(t, row, want)
	if errs := create(row, obj); len(errs) > 0 {
		t.Fatalf("minimal object: %v", errs.ToAggregate())
	}
	if diff := cmp.Diff(expected, stored(t, row, obj)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

// Create changes copies of good in one way after the other and creates them.
func Create[T any, P hooked[T]](t *testing.T, row *kinds.Kind, good P, cases ...Case[T]) {
	t.Helper()
	if errs := create(row, good.DeepCopyObject().(P)); len(errs) > 0 {
		t.Fatalf("good object: %v", errs.ToAggregate())
	}
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			obj := good.DeepCopyObject().(P)
			tc.Edit(obj)
			Errors(t, create(row, obj), tc.Want...)
		})
	}
}

// Update changes copies of old, which has its defaults, and updates it with them.
func Update[T any, P hooked[T]](t *testing.T, row *kinds.Kind, old P, cases ...Case[T]) {
	t.Helper()
	UpdateSubresource(t, row, "", old, cases...)
}

// UpdateSubresource is Update through a subresource.
func UpdateSubresource[T any, P hooked[T]](t *testing.T, row *kinds.Kind, subresource string, old P, cases ...Case[T]) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.Name, func(t *testing.T) {
			obj := old.DeepCopyObject().(P)
			tc.Edit(obj)
			Errors(t, Change(row, subresource, obj, old), tc.Want...)
		})
	}
}

// Change does to obj what an update of old with it does, through the main resource ("") or a subresource that is a part
// of the object, and returns the errors.
func Change(row *kinds.Kind, subresource string, obj, old kinds.Object) field.ErrorList {
	if row.Default != nil {
		row.Default(obj)
	}
	prepare, validate := row.PrepareUpdate, row.ValidateUpdate
	if subresource != "" {
		s := row.Subresource(subresource)
		prepare, validate = s.Prepare, s.Validate
	} else if validate == nil && row.Validate != nil {
		validate = func(obj, _ kinds.Object) field.ErrorList { return row.Validate(obj) }
	}
	if prepare != nil {
		prepare(obj, old)
	}
	if validate == nil {
		return nil
	}
	return validate(obj, old)
}

// Row compares the cells of an object.
func Row(t *testing.T, row *kinds.Kind, obj kinds.Object, now time.Time, want ...any) {
	t.Helper()
	if diff := cmp.Diff(want, row.Row(obj, now)); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

// Errors compares errors by what clients see of them: path, type and text.
func Errors(t *testing.T, got field.ErrorList, want ...string) {
	t.Helper()
	var texts []string
	for _, err := range got {
		texts = append(texts, err.Error())
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

// Ptr returns a pointer to a copy of v.
func Ptr[T any](v T) *T { return &v }

// create runs what a create runs, but for the rules of metadata that are the same for all kinds.
func create(row *kinds.Kind, obj kinds.Object) field.ErrorList {
	if row.Default != nil {
		row.Default(obj)
	}
	if row.HasGeneration {
		obj.SetGeneration(1)
	}
	if row.PrepareCreate != nil {
		row.PrepareCreate(obj)
	}
	var errs field.ErrorList
	if row.ValidateName != nil {
		for _, text := range row.ValidateName(obj.GetName(), false) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), obj.GetName(), text))
		}
	}
	if row.Validate != nil {
		errs = append(errs, row.Validate(obj)...)
	}
	return errs
}

func decode(t *testing.T, row *kinds.Kind, text string) kinds.Object {
	t.Helper()
	obj := row.New()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatalf("decode: %v\n%s", err, text)
	}
	return obj
}

// stored is what comes back from the bytes that an object is stored as.
func stored(t *testing.T, row *kinds.Kind, obj kinds.Object) kinds.Object {
	t.Helper()
	v, err := object.FromObject(row.Type, "/registry/"+row.Path+"/x", 7, obj)
	if err != nil {
		t.Fatal(err)
	}
	back, err := v.Decode()
	if err != nil {
		t.Fatal(err)
	}
	result := back.(kinds.Object)
	result.SetResourceVersion("")
	result.GetObjectKind().SetGroupVersionKind(row.New().GetObjectKind().GroupVersionKind())
	return result
}
