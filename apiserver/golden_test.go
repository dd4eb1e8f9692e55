package apiserver_test

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"vigil/apiserver/apiservertest"
	"vigil/kinds"
	"vigil/kinds/kindtest"
	"vigil/object"
)

// The golden objects of upstream's modules have a value in every field. They are not valid, so they get into the store past the
// server, as if another server had written them; what is read must be what was written, in all forms.
func TestGolden(t *testing.T) {
	s, c, _ := start(t)
	api, extensions := goldenDir(t, "k8s.io/api", ""), goldenDir(t, "k8s.io/apiextensions-apiserver", "pkg/apis")
	for _, k := range s.Table.All() {
		if k.Unstored || k.GVK.Group == "apiregistration.k8s.io" { // upstream has no golden objects of this group
			continue
		}
		name := strings.TrimPrefix(strings.Join([]string{k.GVK.Group, k.GVK.Version, k.GVK.Kind}, "."), ".")
		if k.GVK.Group == "" {
			name = "core." + name
		}
		t.Run(name, func(t *testing.T) {
			dir := api
			if k.GVK.Group == "apiextensions.k8s.io" {
				dir = extensions
			}
			golden, err := os.ReadFile(filepath.Join(dir, name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			obj := k.New()
			if err := json.Unmarshal(golden, obj); err != nil {
				t.Fatal(err)
			}
			if !k.Namespaced {
				obj.SetNamespace("")
			}
			rev := put(t, s, k, obj)
			obj.SetResourceVersion(strconv.FormatInt(rev, 10))
			obj.SetSelfLink("")
			complete(k, obj)
			obj.GetObjectKind().SetGroupVersionKind(k.GVK)
			c := *c
			c.t = t
			wantForms(t, &c, k, viewed(t, k, obj))
			if code := c.get(path(k, obj), "Accept: application/json;as=Table;g=meta.k8s.io;v=v1,application/json").code; code != http.StatusOK {
				t.Errorf("table: %d", code)
			}
			if _, err := s.Store.Delete(t.Context(), key(k, obj), rev); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// What is created comes back in each form as the answer said, and is what was sent with additions.
func TestCreated(t *testing.T) {
	s, c, _ := start(t)
	if r := c.do(http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"default"}}`, "Content-Type: application/json"); r.code != http.StatusCreated {
		t.Fatalf("make namespace: got %d %s", r.code, r.body)
	}
	for _, k := range s.Table.All() {
		if k.Unstored {
			continue
		}
		t.Run(k.GroupResource().String()+"."+k.GVK.Version, func(t *testing.T) {
			c := *c
			c.t = t
			sample := kindtest.Sample(t, k)
			obj := k.New()
			if k.Namespaced {
				obj.SetNamespace("default")
			}
			r := c.do(http.MethodPost, strings.TrimSuffix(path(k, obj), "/"), string(sample), "Content-Type: application/json")
			if r.code != http.StatusCreated {
				t.Fatalf("got %d %s", r.code, r.body)
			}
			if err := json.Unmarshal(r.body, obj); err != nil {
				t.Fatal(err)
			}
			wantForms(t, &c, k, obj)
			if d := c.do(http.MethodDelete, path(k, obj), ""); d.code != http.StatusOK {
				t.Errorf("delete: got %d %s", d.code, d.body)
			}
		})
	}
}

// wantForms reads an object in all forms.
func wantForms(t *testing.T, c *client, k *kinds.Kind, want kinds.Object) {
	t.Helper()
	plain, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(plain, &fields); err != nil {
		t.Fatal(err)
	}
	same := func(form string, got map[string]any, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", form, err)
		} else if diff := cmp.Diff(fields, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", form, diff)
		}
	}
	at := path(k, want)
	var got map[string]any
	r := c.get(at)
	err = json.Unmarshal(r.body, &got)
	same("JSON", got, err)

	got = nil
	r = c.get(at, "Accept: application/yaml")
	err = yaml.UnmarshalStrict(r.body, &got)
	same("YAML", got, err)

	obj := k.New()
	r = c.get(at, "Accept: application/vnd.kubernetes.protobuf")
	var u runtime.Unknown
	if err := u.Unmarshal(r.body[4:]); err != nil {
		t.Fatalf("protobuf: %v in %s", err, r.header.Get("Content-Type"))
	}
	if err := obj.(interface{ Unmarshal([]byte) error }).Unmarshal(u.Raw); err != nil {
		t.Fatalf("protobuf: %v", err)
	}
	if u.APIVersion != k.Type.APIVersion || u.Kind != k.GVK.Kind {
		t.Errorf("protobuf: %s %s", u.APIVersion, u.Kind)
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GVK)
	complete(k, obj)
	if plain, err = json.Marshal(obj); err != nil {
		t.Fatal(err)
	}
	got = nil
	err = json.Unmarshal(plain, &got)
	same("protobuf", got, err)
}

// complete adds what JSON shows and protobuf has no place for.
func complete(k *kinds.Kind, obj kinds.Object) {
	if k.Type.Complete != nil {
		k.Type.Complete(obj)
	}
}

// put writes an object as the store holds it and returns its revision.
func put(t *testing.T, s *apiservertest.Server, k *kinds.Kind, obj kinds.Object) int64 {
	t.Helper()
	stored := obj
	if k.View != nil {
		var err error
		if stored, err = k.View.ToStored(obj.DeepCopyObject().(kinds.Object)); err != nil {
			t.Fatal(err)
		}
	}
	v, err := object.FromObject(k.Stored().Type, key(k, obj), 1, stored.DeepCopyObject())
	if err != nil {
		t.Fatal(err)
	}
	rev, err := s.Store.Create(t.Context(), key(k, obj), v.Stored(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

func key(k *kinds.Kind, obj kinds.Object) string {
	parts := []string{"/registry", k.Path}
	if k.Namespaced {
		parts = append(parts, obj.GetNamespace())
	}
	return strings.Join(append(parts, obj.GetName()), "/")
}

func path(k *kinds.Kind, obj kinds.Object) string {
	parts := []string{"/apis", k.GVK.Group, k.GVK.Version}
	if k.GVK.Group == "" {
		parts = []string{"/api", k.GVK.Version}
	}
	if k.Namespaced {
		parts = append(parts, "namespaces", obj.GetNamespace())
	}
	return strings.Join(append(parts, k.Resource, obj.GetName()), "/")
}

// viewed is what a view shows of an object: the object itself, except that autoscaling/v1 repeats in an annotation what it
// says of the CPU in a field, too.
func viewed(t *testing.T, k *kinds.Kind, obj kinds.Object) kinds.Object {
	t.Helper()
	if k.View == nil {
		return obj
	}
	stored, err := k.View.ToStored(obj.DeepCopyObject().(kinds.Object))
	if err != nil {
		t.Fatal(err)
	}
	shown, err := k.View.FromStored(stored)
	if err != nil {
		t.Fatal(err)
	}
	shown.GetObjectKind().SetGroupVersionKind(k.GVK)
	same := shown.DeepCopyObject().(kinds.Object)
	delete(same.GetAnnotations(), "autoscaling.alpha.kubernetes.io/current-metrics")
	if diff := cmp.Diff(obj, same); diff != "" {
		t.Errorf("lost in the view (-want +got):\n%s", diff)
	}
	return shown
}

// goldenDir is where a module keeps its golden objects, the place below being that of its types.
func goldenDir(t *testing.T, module, types string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("find %s: %v", module, err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), types, "testdata", "HEAD")
}
