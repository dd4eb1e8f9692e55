package decode

import (
	"encoding/json"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/kinds"
	"vigil/kinds/all"
)

// FuzzInto_Kinds decodes a body as any kind in any format, and then does with it what a create does: nothing panics, errors are
// Statuses, and what was decoded and defaulted comes back from its own JSON.
func FuzzInto_Kinds(f *testing.F) {
	rows := all.Table().All()
	for i, k := range rows {
		if k.New == nil {
			continue
		}
		obj := k.New()
		obj.SetName("a")
		if k.Default != nil {
			k.Default(obj)
		}
		body, err := json.Marshal(obj)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), uint8(0), body)
		f.Add(uint8(i), uint8(1), []byte("metadata: {name: a, labels: {a: b}}\nspec: {selector: {matchLabels: {a: b}}, x: 1}\nstatus: {}\nrules: [{}]\n"))
		f.Add(uint8(i), uint8(2), append([]byte("k8s\x00\x0a\x04\x0a\x02v1\x12"), byte(0)))
	}
	f.Fuzz(func(t *testing.T, index, format uint8, body []byte) {
		k := rows[int(index)%len(rows)]
		if k.New == nil {
			return
		}
		obj := k.New()
		_, err := Into(body, Format(format%3), Strict, k.GVK, obj)
		var status apierrors.APIStatus
		if err != nil && !errors.As(err, &status) {
			t.Fatalf("%v is no Status", err)
		}
		if err != nil {
			obj = k.New()
			if _, err = Into(body, Format(format%3), Ignore, k.GVK, obj); err != nil {
				return
			}
		}
		lifecycle(k, obj)
		data, err := json.Marshal(obj)
		if err != nil {
			return // protobuf can hold what JSON cannot, such as broken quantities
		}
		again := k.New()
		if _, err := Into(data, JSON, Strict, k.GVK, again); err != nil {
			t.Fatalf("%s: its own JSON: %v: %s", k.GVK, err, data)
		}
		if Format(format%3) != Protobuf && !equality.Semantic.DeepEqual(obj, again) {
			other, _ := json.Marshal(again)
			t.Fatalf("%s: its own JSON\ngot  %s\nwant %s", k.GVK, other, data)
		}
	})
}

// lifecycle calls the hooks of a create and of a change to the same.
func lifecycle(k *kinds.Kind, obj kinds.Object) {
	if k.Default != nil {
		k.Default(obj)
	}
	if k.PrepareCreate != nil {
		k.PrepareCreate(obj)
	}
	if k.Validate != nil {
		k.Validate(obj)
	}
	if k.ValidateUpdate != nil {
		k.ValidateUpdate(obj.DeepCopyObject().(kinds.Object), obj)
	}
	if k.Warnings != nil {
		k.Warnings(obj, nil)
	}
}
