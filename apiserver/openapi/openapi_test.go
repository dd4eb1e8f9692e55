package openapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/spec3"
	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"vigil/kinds"
	"vigil/kinds/all"
	"vigil/kinds/core"
)

// How lists and maps of every kind merge, read out of the published schemas, is what upstream publishes: client-go's own copy has it.
func TestModels_MergeAsUpstream(t *testing.T) {
	theirs := applyconfigurations.NewTypeConverter(scheme.Scheme)
	seen := 0
	for _, k := range all.Table().All() {
		if k.New == nil {
			continue
		}
		obj := k.New()
		obj.GetObjectKind().SetGroupVersionKind(k.GVK)
		want, err := theirs.ObjectToTyped(obj)
		if err != nil || want.Schema() == nil || want.TypeRef().NamedType == nil {
			continue
		}
		ours, err := managedfields.NewTypeConverter(Models(obj, k.GVK), false)
		if err != nil {
			t.Errorf("%s: %v", k.GVK, err)
			continue
		}
		got, err := ours.ObjectToTyped(obj)
		if err != nil {
			t.Errorf("%s: %v", k.GVK, err)
			continue
		}
		seen++
		c := comparison{t: t, got: got.Schema(), want: want.Schema(), done: map[string]bool{}}
		c.refs(k.GVK.Kind, got.TypeRef(), want.TypeRef())
	}
	if seen < 40 {
		t.Errorf("compared only %d kinds", seen)
	}
}

type comparison struct {
	t         *testing.T
	got, want *schema.Schema
	done      map[string]bool // pairs of names
}

func (c *comparison) refs(path string, got, want schema.TypeRef) {
	if got.NamedType != nil && want.NamedType != nil {
		pair := *got.NamedType + " " + *want.NamedType
		if c.done[pair] {
			return
		}
		c.done[pair] = true
	}
	a, ok := c.got.Resolve(got)
	b, also := c.want.Resolve(want)
	if !ok || !also {
		c.t.Errorf("%s: resolved %v, want %v", path, ok, also)
		return
	}
	switch {
	case want.NamedType != nil && strings.HasSuffix(*want.NamedType, ".IntOrString"): // one of two scalars
	case (a.Map == nil) != (b.Map == nil) || (a.List == nil) != (b.List == nil):
		c.t.Errorf("%s: map %v, list %v, want %v, %v", path, a.Map != nil, a.List != nil, b.Map != nil, b.List != nil)
	case a.List != nil:
		if a.List.ElementRelationship != b.List.ElementRelationship || !cmp.Equal(a.List.Keys, b.List.Keys) {
			c.t.Errorf("%s: %s %v, want %s %v", path, a.List.ElementRelationship, a.List.Keys, b.List.ElementRelationship, b.List.Keys)
		}
		c.refs(path+"[]", a.List.ElementType, b.List.ElementType)
	case a.Map != nil:
		if relation(a.Map) != relation(b.Map) {
			c.t.Errorf("%s: %s, want %s", path, relation(a.Map), relation(b.Map))
		}
		for _, f := range b.Map.Fields {
			mine, ok := a.Map.FindField(f.Name)
			if !ok {
				c.t.Errorf("%s.%s is missing", path, f.Name)
				continue
			}
			if fmt.Sprint(mine.Default) != fmt.Sprint(f.Default) {
				c.t.Errorf("%s.%s: default %v, want %v", path, f.Name, mine.Default, f.Default)
			}
			c.refs(path+"."+f.Name, mine.Type, f.Type)
		}
		if len(b.Map.Fields) == 0 {
			c.refs(path+".*", a.Map.ElementType, b.Map.ElementType)
		}
	}
}

func relation(m *schema.Map) schema.ElementRelationship {
	if m.ElementRelationship == "" {
		return schema.Separable
	}
	return m.ElementRelationship
}

// The document of version 2 is one that its own parser takes, with paths, bodies and models.
func TestSwagger(t *testing.T) {
	data, err := json.Marshal(merged(all.Table().All(), "v1.37.2"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi_v2.ParseDocument(data)
	if err != nil {
		t.Fatal(err)
	}
	models := map[string]bool{}
	for _, d := range doc.Definitions.AdditionalProperties {
		models[d.Name] = true
	}
	for _, name := range []string{"io.k8s.api.core.v1.Pod", "io.k8s.api.apps.v1.DeploymentList", "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", "io.k8s.api.autoscaling.v1.Scale"} {
		if !models[name] {
			t.Errorf("no model %s", name)
		}
	}
	found := false
	for _, p := range doc.Paths.Path {
		if p.Name != "/apis/apps/v1/namespaces/{namespace}/deployments/{name}" {
			continue
		}
		found = true
		patch := p.Value.Patch
		if patch == nil || patch.OperationId != "patchAppsV1NamespacedDeployment" || !strings.Contains(strings.Join(patch.Consumes, " "), "application/apply-patch+yaml") {
			t.Errorf("patch: %v", patch)
		}
	}
	if !found {
		t.Error("no path of deployments")
	}
	// Nothing refers to what is not there.
	for rest := string(data); ; {
		_, after, ok := strings.Cut(rest, `"#/definitions/`)
		if !ok {
			break
		}
		name, _, _ := strings.Cut(after, `"`)
		if !models[name] {
			t.Fatalf("a reference to %q, which is not there", name)
		}
		rest = after
	}
}

// TestConnections: sessions and proxies have the operations that upstream's document has.
func TestConnections(t *testing.T) {
	doc := build(corev1.SchemeGroupVersion, []*kinds.Kind{core.Pod(), core.Service(), core.Node()}, "v1.37.2")
	const pod = "/api/v1/namespaces/{namespace}/pods/{name}/"
	for path, want := range map[string]string{
		pod + "exec": "get connectCoreV1GetNamespacedPodExec PodExecOptions, post connectCoreV1PostNamespacedPodExec PodExecOptions",
		pod + "log":  "get readCoreV1NamespacedPodLog Pod",
		pod + "proxy/{path}": "get connectCoreV1GetNamespacedPodProxyWithPath PodProxyOptions, post connectCoreV1PostNamespacedPodProxyWithPath PodProxyOptions, " +
			"put connectCoreV1PutNamespacedPodProxyWithPath PodProxyOptions, delete connectCoreV1DeleteNamespacedPodProxyWithPath PodProxyOptions, " +
			"options connectCoreV1OptionsNamespacedPodProxyWithPath PodProxyOptions, head connectCoreV1HeadNamespacedPodProxyWithPath PodProxyOptions, " +
			"patch connectCoreV1PatchNamespacedPodProxyWithPath PodProxyOptions",
		"/api/v1/nodes/{name}/proxy": "get connectCoreV1GetNodeProxy NodeProxyOptions, post connectCoreV1PostNodeProxy NodeProxyOptions, put connectCoreV1PutNodeProxy NodeProxyOptions, " +
			"delete connectCoreV1DeleteNodeProxy NodeProxyOptions, options connectCoreV1OptionsNodeProxy NodeProxyOptions, head connectCoreV1HeadNodeProxy NodeProxyOptions, " +
			"patch connectCoreV1PatchNodeProxy NodeProxyOptions",
	} {
		item := doc.Paths.Paths[path]
		if item == nil {
			t.Errorf("no path %s", path)
			continue
		}
		var got []string
		for _, o := range []struct {
			method string
			*spec3.Operation
		}{{"get", item.Get}, {"post", item.Post}, {"put", item.Put}, {"delete", item.Delete}, {"options", item.Options}, {"head", item.Head}, {"patch", item.Patch}} {
			if o.Operation != nil {
				gvk, _ := o.Extensions["x-kubernetes-group-version-kind"].(map[string]any)
				got = append(got, fmt.Sprintf("%s %s %v", o.method, o.OperationId, gvk["kind"]))
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%s:\ngot  %s\nwant %s", path, text, want)
		}
	}
}
