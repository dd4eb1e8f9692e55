package negotiate

import "testing"

func TestAccept(t *testing.T) {
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io"
	resource := Endpoint{Views: true}
	for _, tc := range []struct {
		header string
		e      Endpoint
		want   Result
		ok     bool
	}{
		{"", resource, Result{}, true},
		{"*/*", resource, Result{}, true},
		{"application/yaml;q=0.5, application/json;q=0.4", resource, Result{Format: YAML}, true},
		{"application/json;q=0.4, application/yaml;q=0.5", resource, Result{Format: YAML}, true},
		{"*/*, application/yaml", resource, Result{Format: YAML}, true},
		{"application/*, application/yaml", resource, Result{Format: YAML}, true},
		{"application/json;q=0", resource, Result{}, false},
		{"application/json;q=0, */*;q=0.1", resource, Result{}, true},
		{"text/html", resource, Result{}, false},
		{"text/*", resource, Result{}, false},
		{"APPLICATION/JSON", resource, Result{}, true},
		{`application/json;profile="a,b;c", application/yaml`, resource, Result{}, true},
		{table, resource, Result{View: Table}, true},
		{table + ",application/json", resource, Result{View: Table}, true},
		{table, Endpoint{}, Result{}, false},
		{table + ",application/json", Endpoint{}, Result{}, true},
		{"application/json;as=Table;v=v1beta1;g=meta.k8s.io", resource, Result{View: Table, Beta: true}, true},
		{"application/json;as=Table;v=v2;g=meta.k8s.io", resource, Result{}, false},
		{"application/json;as=Table;v=v1;g=other", resource, Result{}, false},
		{"application/yaml;as=Table;v=v1;g=meta.k8s.io", resource, Result{Format: YAML, View: Table}, true},
		{"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json", resource, Result{}, true},
		{"application/json;pretty=1", resource, Result{Pretty: true}, true},
		{"application/json;pretty=0", resource, Result{}, true},
		{"application/json;sv=v1", resource, Result{}, false},
		{"application/json;stream=watch", resource, Result{}, false},
		{"application/json;stream=watch", Endpoint{Watch: true}, Result{}, true},
		{"application/json;stream=other", Endpoint{Watch: true}, Result{}, false},
		{"application/yaml", Endpoint{Watch: true}, Result{}, false},
		{"application/vnd.kubernetes.protobuf", Endpoint{NoProtobuf: true, Views: true}, Result{Format: Protobuf}, false},
		{"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", Endpoint{NoProtobuf: true, Views: true}, Result{Format: Protobuf, View: Metadata}, true},
		{"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json", Endpoint{Discovery: true}, Result{View: Discovery}, true},
		{"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,application/json", Endpoint{Discovery: true}, Result{View: Discovery}, true},
		{"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json", Endpoint{Discovery: true}, Result{}, true},
	} {
		got, ok := Accept(tc.header, tc.e)
		if ok != tc.ok || (ok && got != tc.want) {
			t.Errorf("%q for %+v: got %+v %v, want %+v %v", tc.header, tc.e, got, ok, tc.want, tc.ok)
		}
	}
}

func TestAccept_Allocations(t *testing.T) {
	const header = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	if n := testing.AllocsPerRun(100, func() {
		if r, ok := Accept(header, Endpoint{Views: true}); !ok || r.View != Table {
			t.Fatal(r, ok)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzAccept(f *testing.F) {
	for _, h := range []string{"*/*;q=0.1", `application/json;as="Table`, "application/json;q=NaN", ",;,;=", "application/yaml;q=1e400"} {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, header string) {
		r, ok := Accept(header, Endpoint{})
		if ok && (r.View != AsIs || r.Beta) {
			t.Errorf("%q: a view that is not offered: %+v", header, r)
		}
	})
}
