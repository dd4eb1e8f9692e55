package write

import (
	"testing"

	"vigil/kinds/all"
	"vigil/kinds/kindtest"
)

// What a client reads and writes back, or patches by nothing, changes nothing: defaults and prepare hooks have a fixed
// point. Else controllers that write what they read would never come to rest.
func TestKinds_WriteBack(t *testing.T) {
	h := newWorld(t)
	h.change(func() { h.table, h.chain = all.Table(), nil })
	h.Writer = New(Config{Store: h.store, Resource: h.serving.resource})
	for _, k := range h.table.All() {
		if k.Path == "" {
			continue
		}
		resource := qualified(k)
		t.Run(resource, func(t *testing.T) {
			created := h.mustCreate(resource, string(kindtest.Sample(t, k)))
			name, rev := created.Name(), created.Revision()
			shown, err := created.As(k.Type)
			if err != nil {
				t.Fatal(err)
			}
			read, err := shown.JSON()
			if err != nil {
				t.Fatal(err)
			}
			unchanged := func(what string, r *Result, err error) {
				t.Helper()
				if err != nil {
					t.Errorf("%s: %v", what, err)
				} else if r.Version.Revision() != rev {
					after, _ := r.Version.JSON()
					t.Errorf("%s changed\n%s\nto\n%s", what, read, after)
					rev = r.Version.Revision()
				}
			}
			r, err := h.update(resource, name, "", "", string(read))
			unchanged("PUT", r, err)
			for contentType, patch := range map[string]string{mergePatch: `{}`, strategicPatch: `{}`, jsonPatch: `[]`} {
				r, err = h.patch(resource, name, "", "", contentType, patch)
				unchanged(contentType, r, err)
			}
			// A migration's status is not valid before its controller has written a resource version there.
			if sub := k.Subresource("status"); sub != nil && k.Resource != "storageversionmigrations" {
				r, err = h.update(resource, name, "status", "", string(read))
				unchanged("PUT status", r, err)
				r, err = h.patch(resource, name, "status", "", mergePatch, `{}`)
				unchanged("PATCH status", r, err)
			}
			if sub := k.Subresource("scale"); sub != nil {
				h.must(h.patch(resource, name, "scale", "", mergePatch, `{"spec":{"replicas":3}}`))
				got, _ := h.stored(resource, name)
				if at(got, "spec", "replicas") != 3.0 || at(got, "metadata", "generation") != 2.0 {
					t.Errorf("scaled: %v", got)
				}
			}
			h.must(h.patch(resource, name, "", "", mergePatch, `{"metadata":{"labels":{"new":"label"}}}`))
			h.must(h.delete(resource, name, "", ""))
		})
	}
}

// An annotation of a deployment is something that its controller copies, and a label of an endpoint slice says whose it is, so they
// count as changes of what is wanted; through status, and for other kinds, they do not.
func TestKinds_MetadataCounts(t *testing.T) {
	h := newWorld(t)
	h.change(func() { h.table, h.chain = all.Table(), nil })
	h.Writer = New(Config{Store: h.store, Resource: h.serving.resource})
	for resource, counts := range map[string]struct{ annotations, labels float64 }{
		"deployments": {1, 0}, "replicasets": {0, 0}, "endpointslices": {0, 1},
	} {
		name := h.mustCreate(resource, string(kindtest.Sample(t, h.kind(resource)))).Name()
		want := 1.0
		generation := func(sub, body string, more float64) {
			t.Helper()
			want += more
			h.must(h.patch(resource, name, sub, "", mergePatch, body))
			if got, _ := h.stored(resource, name); at(got, "metadata", "generation") != want {
				t.Errorf("%s %s after %s: generation %v, want %v", resource, sub, body, at(got, "metadata", "generation"), want)
			}
		}
		generation("", `{"metadata":{"annotations":{"a":"b"}}}`, counts.annotations)
		generation("", `{"metadata":{"annotations":{"a":"b"},"labels":{"c":"d"}}}`, counts.labels)
		generation("", `{"metadata":{"labels":{"c":"d"},"finalizers":["example.com/x"]}}`, 0)
		if resource != "endpointslices" {
			generation("status", `{"metadata":{"annotations":{"a":"c"}},"status":{"observedGeneration":1}}`, 0)
			generation("scale", `{"spec":{"replicas":7}}`, 1)
		}
		generation("", `{"metadata":{"annotations":null}}`, counts.annotations)
	}
}
