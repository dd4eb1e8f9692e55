package all

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vigil/kinds"
	"vigil/object"
)

// selectable are the field labels that each resource documents beyond metadata.name and metadata.namespace.
var selectable = map[string][]string{
	"pods": {
		"spec.nodeName", "spec.host", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
		"status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
	},
	"nodes":      {"spec.unschedulable"},
	"namespaces": {"status.phase"},
	"services":   {"spec.clusterIP", "spec.type"},
	"secrets":    {"type"},
	"events": {
		"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
		"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
	},
	"replicasets":                {"status.replicas"},
	"replicationcontrollers":     {"status.replicas"},
	"jobs":                       {"status.successful"},
	"certificatesigningrequests": {"spec.signerName"},
	"clustertrustbundles":        {"spec.signerName"},
	"resourceslices":             {"spec.nodeName", "spec.driver", "spec.pool.name"},
	"podcertificaterequests":     {"spec.signerName", "spec.podName", "spec.nodeName"},
}

// places are the JSON paths of labels that are not paths themselves.
var places = map[string]string{
	"jobs status.successful": "status.succeeded",
	"pods spec.host":         "spec.nodeName",
	"pods status.podIPs":     "status.podIPs.ip",
	"events source":          "source.component",
}

// TestFields sets the value that each label names on a Go object, encodes the object and reads the value back from the
// bytes: that proves the protobuf paths of all rows.
func TestFields(t *testing.T) {
	for _, k := range Table().All() {
		if k.Unstored || k.View != nil {
			continue
		}
		var labels []string
		for _, f := range k.Type.Fields {
			labels = append(labels, f.Label)
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(selectable[k.Resource])), slices.Sorted(slices.Values(labels))); diff != "" {
			t.Errorf("%s: selectable fields (-documented +table):\n%s", k.Resource, diff)
		}
		for _, f := range k.Type.Fields {
			t.Run(k.Resource+"/"+f.Label, func(t *testing.T) {
				if got := read(t, k, k.New(), f.Label); got != f.Default {
					t.Errorf("absent: %q, want %q", got, f.Default)
				}
				path := f.Label
				if p, found := places[k.Resource+" "+f.Label]; found {
					path = p
				}
				obj := k.New()
				want := set(t, reflect.ValueOf(obj).Elem(), strings.Split(path, "."))
				for i, text := range want {
					v := version(t, k, obj)
					if !v.FieldIs(f.Label, text) {
						t.Errorf("value %d of %s is not %q", i, f.Label, text)
					}
				}
				if got := read(t, k, obj, f.Label); got != want[0] {
					t.Errorf("%q, want %q", got, want[0])
				}
			})
		}
	}
}

func TestFields_EventSource(t *testing.T) {
	k := row(t, "events")
	obj := k.New()
	set(t, reflect.ValueOf(obj).Elem(), []string{"reportingComponent"})
	if got, want := read(t, k, obj, "source"), read(t, k, obj, "reportingComponent"); got != want || got == "" {
		t.Errorf("source without component: %q, want the reporting component %q", got, want)
	}
}

func version(t *testing.T, k *kinds.Kind, obj kinds.Object) *object.Version {
	t.Helper()
	v, err := object.FromObject(k.Type, "/registry/"+k.Path+"/ns/name", 7, obj)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func read(t *testing.T, k *kinds.Kind, obj kinds.Object, label string) string {
	t.Helper()
	value, ok := version(t, k, obj).Field(label)
	if !ok {
		t.Fatalf("unknown field %s", label)
	}
	return value
}

// set gives every leaf at the JSON path a value of its own, two for a slice, and returns them as selectors have them.
func set(t *testing.T, v reflect.Value, path []string) []string {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return set(t, v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		return append(set(t, v.Index(0), path), set(t, v.Index(1), path)...)
	case reflect.Struct:
		if len(path) == 0 {
			break
		}
		for i := range v.NumField() {
			if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name == path[0] {
				return set(t, v.Field(i), path[1:])
			}
		}
		t.Fatalf("%s has no field %s", v.Type(), path[0])
	case reflect.String:
		text := fmt.Sprintf("value-%x", v.Addr().Pointer()%0xffff)
		v.SetString(text)
		return []string{text}
	case reflect.Bool:
		v.SetBool(true)
		return []string{"true"}
	case reflect.Int32, reflect.Int64:
		v.SetInt(42)
		return []string{"42"}
	}
	t.Fatalf("a %s at %v is no leaf", v.Type(), path)
	return nil
}

func row(t *testing.T, resource string) *kinds.Kind {
	t.Helper()
	for _, k := range Table().All() {
		if k.Resource == resource {
			return k
		}
	}
	t.Fatalf("no row for %s", resource)
	return nil
}
