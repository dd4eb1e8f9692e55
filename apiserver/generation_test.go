package apiserver_test

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The generation of an EndpointSlice counts changes of its labels too, which its controller copies from those of a Service or of
// Endpoints. Other metadata does not count.
func TestGeneration_EndpointSlice(t *testing.T) {
	t.Parallel()
	_, _, cs := start(t)
	namespace(t, cs, "ns")
	slices := cs.DiscoveryV1().EndpointSlices("ns")
	made, err := slices.Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}},
	}, metav1.CreateOptions{})
	if err != nil || made.Generation != 1 {
		t.Fatalf("made with generation %d: %v", made.Generation, err)
	}
	for _, c := range []struct {
		what, patch string
		want        int64
	}{
		{"a label is added", `{"metadata":{"labels":{"app":"a"}}}`, 2},
		{"the same label", `{"metadata":{"labels":{"app":"a"}}}`, 2},
		{"an annotation", `{"metadata":{"annotations":{"note":"x"}}}`, 2},
		{"a finalizer", `{"metadata":{"finalizers":["example.com/x"]}}`, 2},
		{"a label is changed", `{"metadata":{"labels":{"app":"b"}}}`, 3},
		{"an address", `{"endpoints":[{"addresses":["10.0.0.2"]}]}`, 4},
		{"a label is removed, and an address changed", `{"metadata":{"labels":null},"endpoints":[{"addresses":["10.0.0.3"]}]}`, 5},
	} {
		got, err := slices.Patch(t.Context(), "s", types.MergePatchType, []byte(c.patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if got.Generation != c.want {
			t.Errorf("%s: generation %d, want %d", c.what, got.Generation, c.want)
		}
	}
}
