package apiserver_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/attacktest"
	"vigil/internal/protobuf"
)

// This file is a list of objects that cost more to read than their size says, each with what the server may spend on it.

// enveloped is the body of a protobuf request.
func enveloped(apiVersion, kind string, message []byte) string {
	meta := protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, apiVersion), 2, kind)
	return "k8s\x00" + string(protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, meta), 2, message))
}

// absurd are quantities that take minutes to be rounded or compared.
var absurd = []string{"1e300000000", "-1E2000000000", "1.23456789012345678901e300000000", "1234567890123456789012e-300000000", strings.Repeat("9", 1<<20)}

// podWith is a pod whose container has a limit.
func podWith(cpu string) string {
	return `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":` + cpu + `}}}]}}`
}

// TestAttack_Quantities: no way into the server takes a number that it cannot compute with.
func TestAttack_Quantities(t *testing.T) {
	_, admin, cs := start(t)
	namespace(t, cs, "ns")
	const pods, quotas = "/api/v1/namespaces/ns/pods", "/api/v1/namespaces/ns/resourcequotas"
	for _, obj := range []string{podWith(`"1"`), `{"kind":"ResourceQuota","apiVersion":"v1","metadata":{"name":"r"},"spec":{"hard":{"pods":"1e3"}}}`} {
		path := pods
		if strings.Contains(obj, "Quota") {
			path = quotas
		}
		if r := admin.do("POST", path, obj, "Content-Type: application/json"); r.code != 201 {
			t.Fatalf("%d %s", r.code, r.body)
		}
	}
	if _, err := cs.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	hard := func(q string) string { return `{"spec":{"hard":{"pods":"` + q + `"}}}` }
	protobufPod := func(q string) string {
		text := []byte(nil)
		text = protobuf.AppendBytes(text, 1, q)
		limits := protobuf.AppendBytes(nil, 1, protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, "cpu"), 2, text))
		container := protobuf.AppendBytes(protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, "c"), 2, "i"), 8, limits)
		return enveloped("v1", "Pod", protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, protobuf.AppendBytes(nil, 1, "p")), 2, protobuf.AppendBytes(nil, 2, container)))
	}
	if r := admin.do("POST", pods, protobufPod("1e2"), "Content-Type: application/vnd.kubernetes.protobuf"); r.code != 201 {
		t.Fatalf("%d %s", r.code, r.body)
	}
	for _, tc := range []struct {
		name, method, path, mediaType string
		body                          func(q string) string
	}{
		{"JSON", "POST", pods, "application/json", func(q string) string { return podWith(`"` + q + `"`) }},
		{"JSON with spaces around it", "POST", pods, "application/json", func(q string) string { return podWith(`" ` + q + ` "`) }},
		{"a number in JSON", "POST", pods, "application/json", podWith},
		{"JSON with an unknown field", "POST", pods, "application/json", func(q string) string {
			return strings.Replace(podWith(`"`+q+`"`), `"spec":{`, `"spec":{"unknown":"\u0041",`, 1)
		}},
		{"an escaped name of a field", "POST", pods, "application/json", func(q string) string {
			return strings.Replace(podWith(`"`+q+`"`), `"limits"`, `"l\u0069mits"`, 1)
		}},
		{"a field twice", "POST", pods, "application/json", func(q string) string {
			return strings.Replace(podWith(`"`+q+`"`), `"limits":`, `"limits":{"cpu":"1"},"limits":`, 1)
		}},
		{"strict JSON", "POST", pods + "?fieldValidation=Strict", "application/json", func(q string) string { return podWith(`"` + q + `"`) }},
		{"lenient JSON", "POST", pods + "?fieldValidation=Ignore", "application/json", func(q string) string {
			return strings.Replace(podWith(`"`+q+`"`), `"spec":{`, `"spec":{"unknown":1,`, 1)
		}},
		{"YAML", "POST", pods, "application/yaml", func(q string) string {
			return "apiVersion: v1\nkind: Pod\nmetadata: {name: y}\nspec:\n  containers:\n  - name: c\n    image: i\n    resources:\n      limits:\n        cpu: \"" + q + "\"\n"
		}},
		{"an alias in YAML", "POST", pods, "application/yaml", func(q string) string {
			return "apiVersion: v1\nkind: Pod\nmetadata: {name: y, annotations: {a: &q \"" + q + "\"}}\nspec: {containers: [{name: c, image: i, resources: {limits: {cpu: *q}}}]}\n"
		}},
		{"protobuf", "POST", pods, "application/vnd.kubernetes.protobuf", protobufPod},
		{"merge patch", "PATCH", quotas + "/r", "application/merge-patch+json", hard},
		{"merge patch of a status", "PATCH", "/api/v1/nodes/n/status", "application/merge-patch+json", func(q string) string { return `{"status":{"capacity":{"cpu":"` + q + `"}}}` }},
		{"strategic patch", "PATCH", quotas + "/r", "application/strategic-merge-patch+json", hard},
		{"JSON patch", "PATCH", quotas + "/r", "application/json-patch+json", func(q string) string {
			return `[{"op":"add","path":"/spec/hard/pods","value":"` + q + `"}]`
		}},
		{"JSON patch that moves it", "PATCH", quotas + "/r", "application/json-patch+json", func(q string) string {
			return `[{"op":"add","path":"/metadata/annotations","value":{"a":"` + q + `"}},{"op":"copy","from":"/metadata/annotations/a","path":"/spec/hard/pods"}]`
		}},
		{"apply", "PATCH", quotas + "/r?fieldManager=m&force=true", "application/apply-patch+yaml", func(q string) string {
			return `{"kind":"ResourceQuota","apiVersion":"v1","metadata":{"name":"r"},` + hard(q)[1:]
		}},
		{"update", "PUT", quotas + "/r", "application/json", func(q string) string {
			return `{"kind":"ResourceQuota","apiVersion":"v1","metadata":{"name":"r"},` + hard(q)[1:]
		}},
		{"name of huge pages", "POST", pods, "application/json", func(q string) string {
			return strings.Replace(podWith(`"1"`), `"cpu":"1"`, `"cpu":"1","memory":"1Gi","hugepages-`+q+`":"1Mi"`, 1)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, q := range absurd {
				if tc.name == "a number in JSON" && q[0] == '9' {
					continue
				}
				var r response
				attacktest.Budget{Memory: 256 << 20, CPU: 5 * time.Second}.Spend(t, func() {
					r = admin.do(tc.method, tc.path, tc.body(q), "Content-Type: "+tc.mediaType)
				})
				if r.code != http.StatusBadRequest && r.code != http.StatusUnprocessableEntity {
					t.Errorf("%.40s: got %d %.300s", q, r.code, r.body)
				}
				if tc.name != "name of huge pages" && !strings.Contains(string(r.body), resource.ErrSuffix.Error()) && !strings.Contains(string(r.body), resource.ErrNumeric.Error()) {
					t.Errorf("%.40s: got %d %.300s", q, r.code, r.body)
				}
			}
		})
	}
	// Every float64 is taken, and what only looks like a quantity is nobody's business.
	for _, body := range []string{`{"spec":{"hard":{"pods":"179e306"}}}`, `{"spec":{"hard":{"requests.cpu":"5e-324"}}}`, `{"metadata":{"annotations":{"a":"1e300000000"}}}`} {
		if r := admin.do("PATCH", quotas+"/r", body, "Content-Type: application/merge-patch+json"); r.code != 200 {
			t.Errorf("%s: %d %s", body, r.code, r.body)
		}
	}
}

// schemas are custom resource definitions whose schema is nested deep by a step: a schema around a schema.
func schemaJSON(open, shut string, deep int) string {
	return `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"as.b.c"},"spec":{"group":"b.c","names":{"kind":"A","plural":"as"},"scope":"Cluster","versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":` +
		strings.Repeat(open, deep) + `{}` + strings.Repeat(shut, deep) + `}}]}}`
}

// TestAttack_Depth: what is nested deeper than anything real is refused before it is decoded, and nothing costs more than its size.
func TestAttack_Depth(t *testing.T) {
	_, admin, cs := start(t)
	namespace(t, cs, "ns")
	const crds, maps = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/api/v1/namespaces/ns/configmaps"
	configMap(t, cs, "ns", "c")
	// nested wraps a message into fields of other messages, from the inside out.
	nested := func(message []byte, fields ...int32) []byte {
		for _, f := range fields {
			message = protobuf.AppendBytes(nil, f, message)
		}
		return message
	}
	// schema is a JSONSchemaProps with one not (27) inside the other.
	schema := func(deep int) string {
		// Made from the outside in: the inner parts would be copied at every step.
		sizes := make([]int, deep+1)
		for i := 1; i <= deep; i++ {
			sizes[i] = sizes[i-1] + protobuf.SizeUvarint(uint64(sizes[i-1])) + 2
		}
		var m []byte
		for i := deep; i > 0; i-- {
			m = protobuf.AppendUvarint(protobuf.AppendTag(m, 27, protobuf.Bytes), uint64(sizes[i-1]))
		}
		version := nested(m, 1, 4) // openAPIV3Schema of schema
		return enveloped("apiextensions.k8s.io/v1", "CustomResourceDefinition", nested(append(protobuf.AppendBytes(nil, 1, "v1"), version...), 7, 2))
	}
	deepJSON := []byte(strings.Repeat(`{"f:a":`, 300_000) + "{}" + strings.Repeat("}", 300_000))
	managed := nested(append(protobuf.AppendBytes(protobuf.AppendBytes(nil, 1, "m"), 6, "FieldsV1"), nested(deepJSON, 1, 7)...), 17)
	withFields := append(protobuf.AppendBytes(nil, 1, "deep"), managed...)
	const asProtobuf = "application/vnd.kubernetes.protobuf"
	for _, tc := range []struct {
		name, method, path, mediaType, body string
	}{
		{"schema in protobuf", "POST", crds, asProtobuf, schema(550_000)},
		{"schema in JSON", "POST", crds, "application/json", schemaJSON(`{"not":`, "}", 4_000)},
		{"items in JSON", "POST", crds, "application/json", schemaJSON(`{"items":`, "}", 4_000)},
		{"lists of items in JSON", "POST", crds, "application/json", schemaJSON(`{"items":[`, "]}", 4_000)},
		{"additional properties in JSON", "POST", crds, "application/json", schemaJSON(`{"additionalProperties":`, "}", 4_000)},
		{"dependencies in JSON", "POST", crds, "application/json", schemaJSON(`{"dependencies":{"a":`, "}}", 3_000)},
		{"dependencies in JSON with an unknown field", "POST", crds, "application/json", strings.Replace(schemaJSON(`{"dependencies":{"a":`, "}}", 3_000), `"spec":{`, `"spec":{"unknown":1,`, 1)},
		{"a much deeper schema in JSON", "POST", crds, "application/json", schemaJSON(`{"not":`, "}", 300_000)},
		{"items in YAML", "POST", crds, "application/yaml", schemaJSON(`{"items":`, "}", 4_000)},
		{"items that are applied", "PATCH", crds + "/as.b.c?fieldManager=m", "application/apply-patch+yaml", schemaJSON(`{"items":`, "}", 4_000)},
		{"managed fields in protobuf", "POST", maps, asProtobuf, enveloped("v1", "ConfigMap", nested(withFields, 1))},
		{"JSON in protobuf", "POST", "/apis/apps/v1/namespaces/ns/controllerrevisions", asProtobuf,
			enveloped("apps/v1", "ControllerRevision", append(nested(protobuf.AppendBytes(nil, 1, "deep"), 1), nested(deepJSON, 1, 2)...))},
		{"lists in YAML", "POST", maps, "application/yaml", strings.Repeat("[", 1_000_000)},
		{"indented YAML", "POST", maps, "application/yaml", indented(2_000)},
		{"sequences in YAML", "POST", maps, "application/yaml", strings.Repeat("- ", 1_000_000)},
		{"keys in YAML", "POST", maps, "application/yaml", strings.Repeat("? ", 1_000_000)},
		{"anchors in YAML", "POST", maps, "application/yaml", strings.Repeat("&a ", 900_000)},
		{"merge patch into what is deep", "PATCH", maps + "/c", "application/merge-patch+json",
			strings.Repeat(`{"a":`, 9_000) + `"` + strings.Repeat("x", 2<<20) + `"` + strings.Repeat("}", 9_000)},
		{"path of a JSON patch", "PATCH", maps + "/c", "application/json-patch+json", fmt.Sprintf(`[{"op":"add","path":"/data","value":%s},{"op":"add","path":"/data%s","value":1}]`,
			strings.Repeat(`{"a":`, 9_000)+`"`+strings.Repeat("x", 2<<20)+`"`+strings.Repeat("}", 9_000), strings.Repeat("/a", 8_999))},
		{"fields that somebody manages", "POST", maps, "application/json", fieldsJSON(4_000, 50_000)},
		{"copies of copies", "PATCH", maps + "/c", "application/json-patch+json", copies(14)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r response
			attacktest.Budget{Memory: 512 << 20, CPU: 10 * time.Second}.Spend(t, func() {
				r = admin.do(tc.method, tc.path, tc.body, "Content-Type: "+tc.mediaType)
			})
			if !slices.Contains([]int{400, 413, 422}, r.code) && (tc.name != "fields that somebody manages" || r.code != 201) {
				t.Errorf("got %d %.300s", r.code, r.body)
			}
			t.Logf("%d %.200s", r.code, r.body)
		})
	}
	if r := admin.do("POST", crds, schemaJSON(`{"type":"object","properties":{"a":`, "}}", 60), "Content-Type: application/json"); r.code != 201 && strings.Contains(string(r.body), "max depth") {
		t.Errorf("a schema 60 deep: %d %.300s", r.code, r.body)
	}
}

// indented is YAML with a map in a map.
func indented(deep int) string {
	var b strings.Builder
	for i := range deep {
		fmt.Fprintf(&b, "%*sa:\n", i, "")
	}
	return b.String()
}

// copies is a JSON patch that copies a member into itself, which doubles its depth, again and again.
func copies(n int) string {
	ops := []string{`{"op":"add","path":"/metadata/annotations","value":{"a":{}}}`}
	inside := "/metadata/annotations/a"
	for deep := 1; len(ops) < n; deep *= 2 {
		ops = append(ops, fmt.Sprintf(`{"op":"copy","from":"/metadata/annotations/a","path":%q}`, inside+strings.Repeat("/a", deep)))
	}
	return "[" + strings.Join(ops, ",") + "]"
}

// fieldsJSON is a map whose managed fields are deep levels with many fields at the bottom.
func fieldsJSON(deep, many int) string {
	var b strings.Builder
	b.WriteString(`{"metadata":{"name":"managed","managedFields":[{"manager":"m","operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","fieldsV1":`)
	b.WriteString(strings.Repeat(`{"f:a":`, deep) + "{")
	for i := range many {
		fmt.Fprintf(&b, `"f:%d":{},`, i)
	}
	b.WriteString(`"f:z":{}}` + strings.Repeat("}", deep) + "}]}}")
	return b.String()
}

// TestAttack_Selectors: each object of a list is compared with each requirement of a selector, so that there are few of those.
func TestAttack_Selectors(t *testing.T) {
	_, admin, cs := start(t)
	namespace(t, cs, "ns")
	for i := range 300 {
		configMap(t, cs, "ns", fmt.Sprint("c", i), "a=b")
	}
	const list = "/api/v1/namespaces/ns/configmaps?"
	for _, tc := range []struct {
		name, query string
		code        int
	}{
		{"labels", "labelSelector=" + strings.TrimSuffix(strings.Repeat("!x,", 50_000), ","), 400},
		{"labels that differ", "labelSelector=" + strings.TrimSuffix(strings.Repeat("a!=x,", 50_000), ","), 400},
		{"fields", "fieldSelector=" + strings.TrimSuffix(strings.Repeat("metadata.name!=x,", 30_000), ","), 400},
		{"labels of a watch", "watch=1&timeoutSeconds=1&labelSelector=" + strings.TrimSuffix(strings.Repeat("!x,", 50_000), ","), 400},
		{"many values", "labelSelector=a+in+(" + strings.Repeat("x,", 20_000) + "b)", 200},
		{"many labels", "labelSelector=" + strings.TrimSuffix(strings.Repeat("!x,", 1_000), ","), 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var r response
			attacktest.Budget{Memory: 128 << 20, CPU: 4 * time.Second}.Spend(t, func() { r = admin.get(list + tc.query) })
			if r.code != tc.code {
				t.Errorf("got %d %.300s", r.code, r.body)
			}
		})
	}
}
