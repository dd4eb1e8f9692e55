package object

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

func TestVersion_Identity(t *testing.T) {
	v := podVersion(t, "a", 12)
	if v.Namespace() != "ns" || v.Name() != "a" || v.Key() != "/registry/pods/ns/a" || v.Revision() != 12 || v.Type().Kind != "Pod" {
		t.Errorf("%s/%s at %s, revision %d, %s", v.Namespace(), v.Name(), v.Key(), v.Revision(), v.Type().Kind)
	}
	node := &Type{APIVersion: "v1", Kind: "Pod", New: v.Type().New}
	v, err := NewVersion(node, "/registry/minions/n1", 3, v.Stored())
	if err != nil {
		t.Fatal(err)
	}
	if v.Namespace() != "" || v.Name() != "n1" {
		t.Errorf("%q/%q", v.Namespace(), v.Name())
	}
}

func TestLabels(t *testing.T) {
	v := podVersion(t, "a", 1)
	for selector, want := range map[string]bool{
		"":                                     true,
		"app=web":                              true,
		"app=web,tier in (backend,frontend)":   true,
		"app!=web":                             false,
		"tier notin (frontend)":                false,
		"zone":                                 true,
		"!zone":                                false,
		"missing":                              false,
		"missing!=x":                           true,
		"pod-template-hash==7d9c8b6f5,zone":    true,
		"pod-template-hash==7d9c8b6f5,zone=eu": false,
	} {
		sel, err := labels.Parse(selector)
		if err != nil {
			t.Fatal(err)
		}
		if got := sel.Matches(v.Labels()); got != want {
			t.Errorf("%s: %v", selector, got)
		}
	}
	bare, err := FromObject(v.Type(), "/registry/pods/ns/b", 2, v.Type().New())
	if err != nil {
		t.Fatal(err)
	}
	if bare.Labels().Has("app") {
		t.Error("no labels, but one found")
	}
}

func TestEachLabel(t *testing.T) {
	widget := &Type{APIVersion: "example.com/v1", Kind: "Widget"}
	const stored = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w","labels":{"app":"web","a\u002db":"x\"y","none":null}}}`
	custom, err := NewVersion(widget, "/registry/example.com/widgets/w", 3, []byte(stored))
	if err != nil {
		t.Fatal(err)
	}
	bare, err := NewVersion(widget, "/registry/example.com/widgets/w", 3, []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"}}`))
	if err != nil {
		t.Fatal(err)
	}
	pod := podVersion(t, "a", 1)
	for v, want := range map[*Version]int{pod: len(podLabels(t, pod)), custom: 2, bare: 0} {
		n := 0
		v.EachLabel(func(key, value string) {
			n++
			if got, ok := v.Labels().Lookup(key); !ok || got != value {
				t.Errorf("%s: label %s is %q, looked up %q, %v", v.Key(), key, value, got, ok)
			}
		})
		if n != want {
			t.Errorf("%s: %d labels, want %d", v.Key(), n, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { pod.EachLabel(func(_, _ string) {}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func podLabels(t *testing.T, v *Version) map[string]string {
	t.Helper()
	obj, err := v.Decode()
	if err != nil {
		t.Fatal(err)
	}
	return obj.(metav1.Object).GetLabels()
}

func TestFields(t *testing.T) {
	v := podVersion(t, "a", 1)
	empty, err := FromObject(v.Type(), "/registry/pods/other/b", 2, v.Type().New())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		label, set, absent string
	}{
		{"metadata.name", "a", "b"},
		{"metadata.namespace", "ns", "other"},
		{"spec.nodeName", "node-17", ""},
		{"spec.hostNetwork", "false", "false"},
		{"status.phase", "Running", ""},
		{"status.podIPs", "10.1.2.3", ""},
		{"metadata.generation", "1", "0"},
		{"first", "a", "b"},
	} {
		for v, want := range map[*Version]string{v: c.set, empty: c.absent} {
			if got, ok := v.Field(c.label); !ok || got != want {
				t.Errorf("%s of %s: %q, %v", c.label, v.Name(), got, ok)
			}
		}
	}
	if got, ok := v.Field("spec.unknown"); ok || v.Fields().Has("spec.unknown") {
		t.Errorf("unknown field: %q", got)
	}
}

func TestMatchFields(t *testing.T) {
	v := podVersion(t, "a", 1)
	for selector, want := range map[string]bool{
		"":                                      true,
		"spec.nodeName=node-17":                 true,
		"spec.nodeName!=":                       true,
		"spec.nodeName=":                        false,
		"metadata.name=a,metadata.namespace=ns": true,
		"metadata.name=b":                       false,
		"status.podIPs=10.1.2.3":                true,
		"status.podIPs=fd00::3":                 true,
		"status.podIPs=fd00::4":                 false,
		"status.podIPs=fd00::3,status.phase=Running,spec.hostNetwork=false": true,
		"status.podIPs=fd00::3,status.phase=Pending":                        false,
		"status.podIP=fd00::3":                                              false,
	} {
		sel, err := fields.ParseSelector(selector)
		if err != nil {
			t.Fatal(err)
		}
		if got := v.MatchFields(sel); got != want {
			t.Errorf("%s: %v", selector, got)
		}
	}
	if !v.MatchFields(nil) {
		t.Error("no selector selects nothing")
	}
}

// TestSelect_AllocatesNothing: selectors run over every object of a list and every event.
func TestSelect_AllocatesNothing(t *testing.T) {
	v := podVersion(t, "a", 1)
	byLabel, err := labels.Parse("app=web,tier=frontend")
	if err != nil {
		t.Fatal(err)
	}
	byField, err := fields.ParseSelector("spec.nodeName=node-17,status.phase=Running")
	if err != nil {
		t.Fatal(err)
	}
	n := testing.AllocsPerRun(100, func() {
		if !byLabel.Matches(v.Labels()) || !v.MatchFields(byField) || v.UID() == "" || v.Namespace() != "ns" {
			t.Fatal("no match")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
