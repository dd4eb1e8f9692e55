package apiserver_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func TestNegotiation(t *testing.T) {
	_, c, k := start(t)
	namespace(t, k, "a")
	configMap(t, k, "a", "c1", "app=x")
	const object, collection = "/api/v1/namespaces/a/configmaps/c1", "/api/v1/namespaces/a/configmaps"
	const pb = "application/vnd.kubernetes.protobuf"
	const accepted = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
	for _, tc := range []struct {
		path, accept string
		code         int
		contentType  string
		body         string // what the body begins with, or the message of the Status
	}{
		{object, "*/*", 200, "application/json", `{"kind":"ConfigMap"`},
		{object, "application/*", 200, "application/json", `{"kind":"ConfigMap"`},
		{object, "application/json", 200, "application/json", `{"kind":"ConfigMap"`},
		{object, "text/html, application/json;q=0.9, */*;q=0.8", 200, "application/json", `{"kind":"ConfigMap"`},
		{object, "application/yaml", 200, "application/yaml", "apiVersion: v1\n"},
		{object, pb, 200, pb, "k8s\x00"},
		{object, pb + ",application/json", 200, pb, "k8s\x00"},
		{object, pb + ";q=0.5,application/json", 200, "application/json", `{"kind":"ConfigMap"`},
		{object, "application/json;pretty=1", 200, "application/json", "{\n  \"kind\": \"ConfigMap\""},
		{object, "application/cbor", 406, "application/json", accepted},
		{object, "text/plain", 406, "application/json", accepted},
		{object, "application/cbor,application/json", 200, "application/json", `{"kind":"ConfigMap"`},
		{object, "application/json;as=Nonsense;g=meta.k8s.io;v=v1,application/json", 200, "application/json", `{"kind":"ConfigMap"`},
		{object, "application/json;as=Nonsense;g=meta.k8s.io;v=v1", 406, "application/json", accepted},
		{object, pb + ";as=Table;g=meta.k8s.io;v=v1", 406, pb, ""},
		{object, "application/json;as=Table;v=v1;g=meta.k8s.io", 200, "application/json", `{"kind":"Table","apiVersion":"meta.k8s.io/v1"`},
		{object, "application/json;as=Table;v=v1beta1;g=meta.k8s.io", 200, "application/json", `{"kind":"Table","apiVersion":"meta.k8s.io/v1beta1"`},
		{object, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", 200, "application/json", `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"`},
		{object, pb + ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io", 200, pb, "k8s\x00"},
		{object, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", 406, "application/json", "you requested PartialObjectMetadataList, but the requested object is not a list (*v1.ConfigMap)"},
		{collection, "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", 406, "application/json", "you requested PartialObjectMetadata, but the requested object is a list (*v1.ConfigMapList)"},
		{collection, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", 200, "application/json", `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1"`},
		{collection, pb + ";as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", 200, pb, "k8s\x00"},
		{collection, "application/yaml", 200, "application/yaml", "apiVersion: v1\nitems:\n"},
		{collection, pb, 200, pb, "k8s\x00"},
		{collection, "application/json;as=Table;v=v1;g=meta.k8s.io", 200, "application/json", `{"kind":"Table","apiVersion":"meta.k8s.io/v1"`},
		{collection + "?includeObject=Bad", "application/json;as=Table;v=v1;g=meta.k8s.io", 400, "application/json",
			"Unable to convert to Table as requested: includeObject: Invalid value: \"Bad\": must be 'Metadata', 'Object', 'None', or empty"},
		{collection + "/nope", "application/json;as=Table;v=v1;g=meta.k8s.io", 404, "application/json", `configmaps "nope" not found`},
		{collection + "/nope", "application/yaml", 404, "application/yaml", "apiVersion: v1\n"},
		{collection + "/nope", pb, 404, pb, "k8s\x00"},
		{object + "?pretty=true", "", 200, "application/json", "{\n  \"kind\": \"ConfigMap\""},
		{collection + "?pretty=true", "", 200, "application/json", "{\n  \"kind\": \"ConfigMapList\""},
	} {
		r := c.get(tc.path, "Accept: "+tc.accept)
		if r.code != tc.code || r.header.Get("Content-Type") != tc.contentType {
			t.Errorf("%s as %q: got %d %q %.80s, want %d %q", tc.path, tc.accept, r.code, r.header.Get("Content-Type"), r.body, tc.code, tc.contentType)
			continue
		}
		if tc.code != 200 && tc.contentType == "application/json" {
			if got := r.status().Message; got != tc.body {
				t.Errorf("%s as %q: got %q, want %q", tc.path, tc.accept, got, tc.body)
			}
		} else if !strings.HasPrefix(string(r.body), tc.body) {
			t.Errorf("%s as %q: got %.80q, want %q", tc.path, tc.accept, r.body, tc.body)
		}
	}
	for agent, indented := range map[string]bool{"curl/8.1": true, "Wget/1": true, "Mozilla/5.0 (X11)": true, "kubectl/v1.37": false} {
		if got := strings.HasPrefix(string(c.get(object, "User-Agent: "+agent).body), "{\n"); got != indented {
			t.Errorf("%s: indented %v, want %v", agent, got, indented)
		}
		if strings.HasPrefix(string(c.get(object+"?pretty=false", "User-Agent: "+agent).body), "{\n") {
			t.Errorf("%s: indented in spite of pretty=false", agent)
		}
	}
}

// TestEncodings_Agree decodes one list from all its encodings.
func TestEncodings_Agree(t *testing.T) {
	_, c, k := start(t)
	namespace(t, k, "a")
	for _, name := range []string{"c1", "c2", "c3"} {
		configMap(t, k, "a", name, "app=x")
	}
	const path = "/api/v1/namespaces/a/configmaps?limit=2"
	var want corev1.ConfigMapList
	c.get(path).into(&want)
	want.TypeMeta = metav1.TypeMeta{}

	var fromYAML corev1.ConfigMapList
	if err := yaml.Unmarshal(c.get(path, "Accept: application/yaml").body, &fromYAML); err != nil {
		t.Fatal(err)
	}
	fromYAML.TypeMeta = metav1.TypeMeta{}
	var u runtime.Unknown
	if err := u.Unmarshal(c.get(path, "Accept: application/vnd.kubernetes.protobuf").body[4:]); err != nil {
		t.Fatal(err)
	}
	if u.Kind != "ConfigMapList" || u.APIVersion != "v1" {
		t.Errorf("envelope of %s %s", u.APIVersion, u.Kind)
	}
	var fromProtobuf corev1.ConfigMapList
	if err := fromProtobuf.Unmarshal(u.Raw); err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string]corev1.ConfigMapList{"yaml": fromYAML, "protobuf": fromProtobuf} {
		a, _ := json.Marshal(got)
		b, _ := json.Marshal(want)
		if string(a) != string(b) {
			t.Errorf("%s differs:\n%s\n%s", name, a, b)
		}
	}
	if len(want.Items) != 2 || want.Continue == "" || want.RemainingItemCount == nil || *want.RemainingItemCount != 1 {
		t.Errorf("page %+v", want.ListMeta)
	}
}

func TestTable(t *testing.T) {
	_, c, k := start(t)
	namespace(t, k, "a")
	rv := configMap(t, k, "a", "c1", "app=x")
	configMap(t, k, "a", "c2", "app=x")
	const accept = "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	read := func(path string) (table metav1.Table) {
		t.Helper()
		c.get(path, accept).into(&table)
		return table
	}
	one := read("/api/v1/namespaces/a/configmaps/c1")
	if one.ResourceVersion != rv || len(one.Rows) != 1 || one.Rows[0].Cells[0] != "c1" || one.Rows[0].Cells[1] != float64(1) {
		t.Errorf("one object: %+v", one)
	}
	if len(one.ColumnDefinitions) != 3 || one.ColumnDefinitions[1].Name != "Data" || one.ColumnDefinitions[2].Name != "Age" {
		t.Errorf("columns %+v", one.ColumnDefinitions)
	}
	page := read("/api/v1/namespaces/a/configmaps?limit=1")
	if len(page.Rows) != 1 || page.Continue == "" || page.RemainingItemCount == nil || *page.RemainingItemCount != 1 || page.ResourceVersion == "" {
		t.Errorf("page: %+v", page.ListMeta)
	}
	if !strings.Contains(string(page.Rows[0].Object.Raw), `"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1"`) {
		t.Errorf("row object %s", page.Rows[0].Object.Raw)
	}
	if raw := string(read("/api/v1/namespaces/a/configmaps?includeObject=None").Rows[0].Object.Raw); raw != "null" && raw != "" {
		t.Errorf("None: row object %s", raw)
	}
	if raw := string(read("/api/v1/namespaces/a/configmaps?includeObject=Object").Rows[0].Object.Raw); !strings.Contains(raw, `"kind":"ConfigMap"`) || !strings.Contains(raw, `"data"`) {
		t.Errorf("Object: row object %s", raw)
	}
	if empty := read("/api/v1/namespaces/nope/configmaps"); empty.Rows == nil || len(empty.Rows) != 0 || len(empty.ColumnDefinitions) != 3 {
		t.Errorf("empty table %+v", empty)
	}
}

func TestCompression(t *testing.T) {
	_, c, k := start(t)
	namespace(t, k, "a")
	if r := c.get("/api/v1/namespaces/a", "Accept-Encoding: gzip"); r.header.Get("Content-Encoding") != "" {
		t.Errorf("a small body is %s", r.header.Get("Content-Encoding"))
	}
	big := strings.Repeat("0123456789abcdef", 16<<10)
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "big"}, Data: map[string]string{"data": big}}
	if _, err := k.CoreV1().ConfigMaps("a").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/v1/configmaps", "/api/v1/namespaces/a/configmaps/big"} {
		r := c.get(path, "Accept-Encoding: gzip")
		if r.header.Get("Content-Encoding") != "gzip" || !strings.Contains(r.header.Get("Vary"), "Accept-Encoding") || len(r.body) > 64<<10 {
			t.Errorf("%s: %d bytes, header %v", path, len(r.body), r.header)
			continue
		}
		z, err := gzip.NewReader(strings.NewReader(string(r.body)))
		if err != nil {
			t.Fatal(err)
		}
		var body strings.Builder
		if _, err := io.Copy(&body, z); err != nil || !strings.Contains(body.String(), big) {
			t.Errorf("%s: unpacked %d bytes, %v", path, body.Len(), err)
		}
		if r := c.get(path, "Accept-Encoding: identity"); r.header.Get("Content-Encoding") != "" || !strings.Contains(string(r.body), big) {
			t.Errorf("%s plain: header %v", path, r.header)
		}
		if r := c.get(path, "Accept-Encoding: deflate"); r.header.Get("Content-Encoding") != "deflate" {
			t.Errorf("%s deflate: header %v", path, r.header)
		}
	}
}
