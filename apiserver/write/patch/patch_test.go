package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver/decode"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

func aPod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", Labels: map[string]string{"a": "b"},
			Finalizers: []string{"example.com/x", "example.com/y"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}},
				{Name: "d", Image: "j", Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}}},
			},
			Tolerations: []corev1.Toleration{{Key: "k"}},
			Volumes:     []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
	}
}

func source(pod *corev1.Pod) Source {
	return Source{Object: pod, JSON: func() ([]byte, error) { return json.Marshal(pod) }}
}

func TestApply(t *testing.T) {
	for _, c := range []struct {
		name, media, body string
		check             func(pod *corev1.Pod) bool
	}{
		{"merge null removes", Types[1], `{"metadata":{"labels":{"a":null,"c":"d"}}}`,
			func(p *corev1.Pod) bool { return len(p.Labels) == 1 && p.Labels["c"] == "d" }},
		{"strategic merges lists in lists", Types[2], `{"spec":{"containers":[{"name":"c","env":[{"name":"B","value":"3"}]}]}}`,
			func(p *corev1.Pod) bool {
				return len(p.Spec.Containers) == 2 && p.Spec.Containers[0].Env[1].Value == "3" && p.Spec.Containers[0].Env[0].Value == "1"
			}},
		{"strategic replaces atomic lists", Types[2], `{"spec":{"tolerations":[{"key":"l"}]}}`,
			func(p *corev1.Pod) bool { return len(p.Spec.Tolerations) == 1 && p.Spec.Tolerations[0].Key == "l" }},
		{"delete from a list of strings", Types[2], `{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/x"]}}`,
			func(p *corev1.Pod) bool { return len(p.Finalizers) == 1 && p.Finalizers[0] == "example.com/y" }},
		{"order", Types[2], `{"spec":{"$setElementOrder/containers":[{"name":"d"},{"name":"c"}],"containers":[{"name":"c","image":"k"}]}}`,
			func(p *corev1.Pod) bool { return p.Spec.Containers[0].Name == "d" && p.Spec.Containers[1].Image == "k" }},
		{"retain keys", Types[2], `{"spec":{"volumes":[{"name":"v","$retainKeys":["name","hostPath"],"hostPath":{"path":"/x"}}]}}`,
			func(p *corev1.Pod) bool {
				return p.Spec.Volumes[0].EmptyDir == nil && p.Spec.Volumes[0].HostPath.Path == "/x"
			}},
		{"json patch moves", Types[0], `[{"op":"move","from":"/spec/containers/1","path":"/spec/containers/0"},{"op":"add","path":"/metadata/labels/x~1y","value":"z"}]`,
			func(p *corev1.Pod) bool { return p.Spec.Containers[0].Name == "d" && p.Labels["x/y"] == "z" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Parse(c.media, []byte(c.body), decode.Warn)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // a patch can be applied again
				pod, got := aPod(), &corev1.Pod{}
				warnings, err := p.Apply(source(pod), podKind, got)
				if err != nil || len(warnings) > 0 {
					t.Fatalf("%v, %q", err, warnings)
				}
				if !c.check(got) {
					t.Errorf("got %+v", got)
				}
				if before, after := mustJSON(t, aPod()), mustJSON(t, pod); before != after {
					t.Errorf("the source was changed to %s", after)
				}
			}
		})
	}
}

func mustJSON(t *testing.T, obj any) string {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A copy that doubles the document each time hits the limit, not the memory.
func TestApply_CopyLimit(t *testing.T) {
	body := `[{"op":"add","path":"/metadata/annotations","value":{"a":"0123456789"}}`
	for i := range 40 {
		body += `,{"op":"copy","from":"/metadata/annotations","path":"/metadata/annotations/` + string(rune('b'+i)) + `"}`
	}
	p, err := Parse(Types[0], []byte(body+"]"), decode.Warn)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Apply(source(aPod()), podKind, &corev1.Pod{})
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != 422 {
		t.Errorf("got %v", err)
	}
}

// TestApply_BrokenStrategic has the patches that make no sense: their errors are Statuses too.
func TestApply_BrokenStrategic(t *testing.T) {
	for body, code := range map[string]int32{
		`{"spec":{"containers":[{"image":"x"}]}}`:                                    400, // no merge key
		`{"spec":{"containers":{"name":"x"}}}`:                                       422,
		`{"spec":{"$patch":"foo"}}`:                                                  400,
		`{"spec":{"volumes":[{"name":"v","$retainKeys":"x"}]}}`:                      400,
		`{"spec":{"volumes":[{"name":"v","$retainKeys":["name"],"emptyDir":null}]}}`: 0,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":"x"}}`:                   0,
		`[]`:   400,
		`null`: 0,
	} {
		p, err := Parse(Types[2], []byte(body), decode.Warn)
		if err == nil {
			_, err = p.Apply(source(aPod()), podKind, &corev1.Pod{})
		}
		var status apierrors.APIStatus
		switch {
		case code == 0:
			if err != nil {
				t.Errorf("%s: %v", body, err)
			}
		case !errors.As(err, &status) || status.Status().Code != code:
			t.Errorf("%s: got %v, want %d", body, err, code)
		}
	}
}

func fuzzPatch(f *testing.F, media string, seeds ...string) {
	for _, seed := range seeds {
		f.Add([]byte(seed), uint8(0))
		f.Add([]byte(seed), uint8(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, validation uint8) {
		p, err := Parse(media, body, decode.Validation(validation%3))
		if err == nil {
			got := &corev1.Pod{}
			var warnings []string
			if warnings, err = p.Apply(source(aPod()), podKind, got); err == nil && got.GroupVersionKind() != podKind {
				t.Fatalf("kind %v", got.GroupVersionKind())
			}
			// The short way by sections comes to the same as the whole way.
			want := &corev1.Pod{}
			wantWarnings, wantErr := p.applyWhole(source(aPod()), podKind, want)
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("got %v, want %v", err, wantErr)
			}
			if err == nil && (!equality.Semantic.DeepEqual(got, want) || !slices.Equal(warnings, wantWarnings)) {
				t.Fatalf("got  %s %q\nwant %s %q", mustJSON(t, got), warnings, mustJSON(t, want), wantWarnings)
			}
		}
		var status apierrors.APIStatus
		if err != nil && !errors.As(err, &status) {
			t.Fatalf("%v is no Status", err)
		}
	})
}

func FuzzJSONPatch(f *testing.F) {
	fuzzPatch(f, Types[0],
		`[{"op":"replace","path":"/spec/containers/0/image","value":"b"},{"op":"test","path":"/kind","value":"Pod"}]`,
		`[{"op":"move","from":"/spec/containers/1","path":"/spec/containers/-"},{"op":"copy","from":"/metadata","path":"/x"}]`,
		`[{"op":"remove","path":""},null]`, `[{"op":"add","path":"","value":null}]`)
}

func FuzzMergePatch(f *testing.F) {
	fuzzPatch(f, Types[1], `{"metadata":{"labels":{"a":null}},"spec":{"containers":[{"name":"x"}]}}`, `null`, `[null]`, `{"spec":null}`)
}

func FuzzStrategicPatch(f *testing.F) {
	fuzzPatch(f, Types[2],
		`{"spec":{"containers":[{"name":"c","$patch":"delete"},{"$patch":"replace"}]}}`,
		`{"metadata":{"$deleteFromPrimitiveList/finalizers":["example.com/x"],"$setElementOrder/finalizers":["a"]}}`,
		`{"spec":{"volumes":[{"name":"v","$retainKeys":["name"],"emptyDir":null}],"$patch":"merge"}}`,
		`{"metadata":{"uid":"u","generation":2,"finalizers":["a"]},"status":{"phase":"Running","podIP":"10.0.0.1","startTime":"2026-01-01T00:00:00Z","conditions":[{"type":"Ready","status":"True"}],"$setElementOrder/conditions":[{"type":"Ready"}],"containerStatuses":[{"name":"c","ready":true,"restartCount":1,"state":{"running":{"startedAt":null}},"allocatedResources":{"cpu":"1"}}],"hostIPs":[{"ip":"10.0.0.1"}]}}`,
		`{"spec":{"hostNetwork":true,"terminationGracePeriodSeconds":7,"priority":-1,"tolerations":[null,{"key":"a"}],"readinessGates":[],"hostname":null}}`,
		`{"status":{"phase":"a","phase":"b","containerStatuses":[{"name":1}],"observedGeneration":1.0,"containerStatuses":[{"$patch":"delete"}]}}`,
		`{"status":{"containerStatuses":[{"name":"c","name":"d","x":1}],"$setElementOrder/containerStatuses":[{"name":"d"}],"nominatedNodeName":"<&>\u0024"},"spec":null}`,
		`{"$patch":"delete"}`, `{"spec":{"containers":null,"$setElementOrder/containers":[{"name":"d"},{"name":1}]}}`)
}
