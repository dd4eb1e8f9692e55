package served

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRead(t *testing.T) {
	group := func(name string, versions ...string) *metav1.APIGroup {
		g := &metav1.APIGroup{Name: name}
		for _, v := range versions {
			g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v})
		}
		g.PreferredVersion = g.Versions[len(g.Versions)-1]
		return g
	}
	list := func(version string, resources ...metav1.APIResource) *metav1.APIResourceList {
		return &metav1.APIResourceList{GroupVersion: version, APIResources: resources}
	}
	crud := metav1.Verbs{"delete", "list", "watch"}
	got := read([]*metav1.APIGroup{group("", "v1"), group("example.com", "example.com/v1beta1", "example.com/v1")}, []*metav1.APIResourceList{
		list("v1", metav1.APIResource{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: crud}, metav1.APIResource{Name: "pods/status", Kind: "Pod", Namespaced: true}),
		list("example.com/v1beta1",
			metav1.APIResource{Name: "widgets", Kind: "Widget", Verbs: crud},
			metav1.APIResource{Name: "gadgets", Kind: "Gadget", Verbs: metav1.Verbs{"create"}}),
		list("example.com/v1", metav1.APIResource{Name: "widgets", Kind: "Widget", Verbs: crud}),
		list("not/a/version"),
		nil, // a version that could not be asked about
	})
	var preferred []string
	for _, r := range got.Preferred {
		preferred = append(preferred, r.GVR.GroupVersion().String()+" "+r.GVR.Resource)
	}
	if diff := cmp.Diff([]string{"v1 pods", "example.com/v1 widgets", "example.com/v1beta1 gadgets"}, preferred); diff != "" {
		t.Errorf("preferred (-want +got):\n%s", diff)
	}
	old := got.ByKind[schema.GroupVersionKind{Group: "example.com", Version: "v1beta1", Kind: "Widget"}]
	if old.GVR.Version != "v1beta1" || old.Namespaced || !old.Can("list", "delete") || old.Can("list", "create") {
		t.Errorf("Widget in v1beta1 is %+v", old)
	}
	if pod := got.ByKind[schema.GroupVersionKind{Version: "v1", Kind: "Pod"}]; pod.GVR.Resource != "pods" {
		t.Errorf("Pod is %+v, want pods and not a subresource", pod)
	}
	if len(got.Malformed) != 1 {
		t.Errorf("malformed versions: %v, want one", got.Malformed)
	}
}
