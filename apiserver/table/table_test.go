package table_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/apiserver/table"
	"vigil/kinds"
	"vigil/kinds/core"
	"vigil/object"
)

var born = metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))

func version(t *testing.T, k *kinds.Kind, obj runtime.Object) *object.Version {
	t.Helper()
	v, err := object.FromObject(k.Type, "/registry/x/default/one", 7, obj)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// print makes a table of one row.
func print(t *testing.T, p *table.Printer, v *object.Version) metav1.Table {
	t.Helper()
	remaining := int64(3)
	b, err := p.AppendHeader(nil, object.ListMeta{ResourceVersion: 9, Continue: "token", Remaining: &remaining}, true)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = p.AppendRow(b, v); err != nil {
		t.Fatal(err)
	}
	b = table.AppendFooter(b)
	var out metav1.Table
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	if out.ResourceVersion != "9" || out.Continue != "token" || *out.RemainingItemCount != 3 || out.Kind != "Table" {
		t.Errorf("list metadata of %s", b)
	}
	return out
}

func TestPrinter_Pod(t *testing.T) {
	k := core.Pod()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default", CreationTimestamp: born, Labels: map[string]string{"a": "b"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodSucceeded},
	}
	v := version(t, k, pod)
	for _, tc := range []struct {
		include table.Include
		beta    bool
		object  string // what the row's object begins with
	}{
		{table.IncludeNone, false, "null"},
		{table.IncludeObject, false, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"one"`},
		{table.IncludeMetadata, false, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"one"`},
		{table.IncludeMetadata, true, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","metadata":{"name":"one"`},
	} {
		out := print(t, table.NewPrinter(k, tc.beta, tc.include, born.Add(90*time.Second)), v)
		row := out.Rows[0]
		if len(row.Cells) != len(out.ColumnDefinitions) || row.Cells[0] != "one" || row.Cells[4] != "90s" {
			t.Errorf("%s: cells %v of columns %v", tc.include, row.Cells, out.ColumnDefinitions)
		}
		want := []metav1.TableRowCondition{{Type: "Completed", Status: "True", Reason: "Succeeded", Message: "The pod has completed successfully."}}
		if diff := cmp.Diff(want, row.Conditions); diff != "" {
			t.Errorf("%s: conditions (-want +got):\n%s", tc.include, diff)
		}
		raw := string(row.Object.Raw)
		if raw == "" {
			raw = "null"
		}
		if !strings.HasPrefix(raw, tc.object) {
			t.Errorf("%s: object %s, want %s", tc.include, raw, tc.object)
		}
		if wantVersion := map[bool]string{false: "meta.k8s.io/v1", true: "meta.k8s.io/v1beta1"}[tc.beta]; out.APIVersion != wantVersion {
			t.Errorf("%s: apiVersion %s", tc.include, out.APIVersion)
		}
	}
}

func TestPrinter_Generic(t *testing.T) {
	k := &kinds.Kind{
		GVK:  rbacv1.SchemeGroupVersion.WithKind("Role"),
		Type: &object.Type{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "Role", Namespaced: true, New: func() runtime.Object { return new(rbacv1.Role) }},
	}
	v := version(t, k, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "one", Namespace: "default", CreationTimestamp: born}})
	out := print(t, table.NewPrinter(k, false, table.IncludeNone, time.Now()), v)
	var names []string
	for _, c := range out.ColumnDefinitions {
		names = append(names, c.Name+" "+c.Type)
	}
	if diff := cmp.Diff([]string{"Name string", "Created At date"}, names); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]any{"one", "2026-01-02T03:04:05Z"}, out.Rows[0].Cells); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

func TestParseInclude(t *testing.T) {
	for in, want := range map[string]table.Include{"": table.IncludeMetadata, "None": table.IncludeNone, "Metadata": table.IncludeMetadata, "Object": table.IncludeObject} {
		if got, err := table.ParseInclude(in); err != nil || got != want {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	if _, err := table.ParseInclude("none"); err == nil {
		t.Error("an unknown value is accepted")
	}
}
