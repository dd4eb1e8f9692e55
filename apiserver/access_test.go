package apiserver_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authz"
)

func TestAccess(t *testing.T) {
	s := apiservertest.Start(t)
	other := apiservertest.Start(t)
	anonymous := newClient(t, s.Anonymous())
	joe := newClient(t, s.Client("joe", "devs"))
	foreign := other.Admin() // signed by another CA
	foreign.Host, foreign.CAData = s.URL, s.Admin().CAData

	for _, tc := range []struct {
		who     *client
		method  string
		path    string
		code    int
		message string
	}{
		{anonymous, "GET", "/healthz", 200, ""},
		{anonymous, "GET", "/livez?verbose", 200, ""},
		{anonymous, "GET", "/readyz", 200, ""},
		{anonymous, "GET", "/version", 200, ""},
		{anonymous, "GET", "/version/", 200, ""},
		{anonymous, "POST", "/version", 403, `forbidden: User "system:anonymous" cannot post path "/version"`},
		{anonymous, "GET", "/healthz/etcd", 403, `forbidden: User "system:anonymous" cannot get path "/healthz/etcd"`},
		{anonymous, "GET", "/api", 403, `forbidden: User "system:anonymous" cannot get path "/api"`},
		{anonymous, "GET", "/metrics", 403, `forbidden: User "system:anonymous" cannot get path "/metrics"`},
		{anonymous, "GET", "/api/v1/pods", 403, `pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope`},
		{newClient(t, foreign), "GET", "/api/v1/pods", 401, "Unauthorized"},
		{newClient(t, foreign), "GET", "/healthz", 401, "Unauthorized"},
		{joe, "GET", "/api/v1/pods", 403, `pods is forbidden: User "joe" cannot list resource "pods" in API group "" at the cluster scope`},
		{joe, "GET", "/api/v1/namespaces/default/pods/x", 403, `pods "x" is forbidden: User "joe" cannot get resource "pods" in API group "" in the namespace "default"`},
		{joe, "PUT", "/apis/apps/v1/namespaces/default/deployments/x/status", 403, `deployments.apps "x" is forbidden: User "joe" cannot update resource "deployments/status" in API group "apps" in the namespace "default"`},
		{joe, "GET", "/api/v1/pods?watch=1", 403, `pods is forbidden: User "joe" cannot watch resource "pods" in API group "" at the cluster scope`},
		{joe, "GET", "/api/v1/secrets?fieldSelector=metadata.name%3Dx", 403, `secrets "x" is forbidden: User "joe" cannot list resource "secrets" in API group "" at the cluster scope`},
		{joe, "DELETE", "/api/v1/namespaces/default/pods", 403, `pods is forbidden: User "joe" cannot deletecollection resource "pods" in API group "" in the namespace "default"`},
		{joe, "GET", "/apis/nonsense/v1/things", 403, `things.nonsense is forbidden: User "joe" cannot list resource "things" in API group "nonsense" at the cluster scope`},
		{joe, "GET", "/metrics", 403, `forbidden: User "joe" cannot get path "/metrics"`},
		{newClient(t, s.Client("system:kube-scheduler")), "GET", "/api/v1/pods", 200, ""},
		{newClient(t, s.Client("system:kube-controller-manager")), "GET", "/api/v1/pods", 200, ""},
		{newClient(t, s.Client("system:node:n1", "system:nodes")), "GET", "/api/v1/pods", 200, ""},
		{newClient(t, s.Client("system:node:n1")), "GET", "/api/v1/pods", 403, `pods is forbidden: User "system:node:n1" cannot list resource "pods" in API group "" at the cluster scope`},
		{newClient(t, s.Client("root", "system:masters")), "GET", "/metrics", 200, ""},
	} {
		r := tc.who.do(tc.method, tc.path, "")
		if r.code != tc.code {
			t.Errorf("%s %s: got %d %.200s, want %d", tc.method, tc.path, r.code, r.body, tc.code)
		} else if tc.message != "" && r.status().Message != tc.message {
			t.Errorf("%s %s: got %q, want %q", tc.method, tc.path, r.status().Message, tc.message)
		}
	}
}

func TestTLS(t *testing.T) {
	s := apiservertest.Start(t)
	addr := strings.TrimPrefix(s.URL, "https://")
	for _, tc := range []struct {
		version uint16
		ok      bool
	}{{tls.VersionTLS11, false}, {tls.VersionTLS12, true}, {tls.VersionTLS13, true}} {
		conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tc.version, NextProtos: []string{"h2"}})
		if (err == nil) != tc.ok {
			t.Errorf("TLS version %x: %v", tc.version, err)
		}
		if err == nil {
			if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
				t.Errorf("TLS version %x: protocol %q", tc.version, got)
			}
			conn.Close()
		}
	}
	resp, err := http.Get("http://" + addr + "/healthz")
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("plain HTTP is answered with %s", resp.Status)
		}
	}
}

// blocking lets requests of one user hang in authorization.
type blocking struct {
	user    string
	entered chan struct{}
	release chan struct{}
}

func (b *blocking) Authorize(ctx context.Context, a *authz.Attributes) (bool, string, error) {
	if a.User.Name == "panic" {
		panic("as asked")
	}
	if a.User.Name == b.user && a.Verb != "watch" {
		b.entered <- struct{}{}
		select {
		case <-b.release:
		case <-ctx.Done():
		}
	}
	return true, "", nil
}

func TestInflight(t *testing.T) {
	b := &blocking{user: "slow", entered: make(chan struct{}), release: make(chan struct{})}
	s := apiservertest.Start(t, func(c *apiserver.Config) {
		c.Authorizer, c.MaxRequestsInflight, c.MaxMutatingRequestsInflight = b, 2, 1
	})
	slow, joe, admin := newClient(t, s.Client("slow")), newClient(t, s.Client("joe")), newClient(t, s.Admin())
	done := make(chan int, 3)
	for range 2 {
		go func() { done <- slow.get("/api/v1/pods").code }()
	}
	go func() {
		done <- slow.do("POST", "/api/v1/namespaces", `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n"}}`).code
	}()
	for range 3 {
		<-b.entered
	}
	for _, method := range []string{"GET", "POST"} {
		r := joe.do(method, "/api/v1/namespaces", "{}")
		if r.code != http.StatusTooManyRequests || r.header.Get("Retry-After") != "1" || string(r.body) != "Too many requests, please try again later.\n" {
			t.Errorf("%s over the limit: got %d %q, Retry-After %q", method, r.code, r.body, r.header.Get("Retry-After"))
		}
	}
	if r := admin.get("/api/v1/pods"); r.code != http.StatusOK {
		t.Errorf("an administrator over the limit: got %d", r.code)
	}
	w := joe.watch("/api/v1/pods?watch=true&allowWatchBookmarks=true")
	w.expect("BOOKMARK end")
	metrics := string(admin.get("/metrics").body)
	for _, want := range []string{
		`apiserver_dropped_requests_total{request_kind="readOnly"} 1`, `apiserver_dropped_requests_total{request_kind="mutating"} 1`,
		`apiserver_current_inflight_requests{request_kind="mutating"} 1`, `apiserver_current_inflight_requests{request_kind="readOnly"} 3`,
		`apiserver_longrunning_requests{component="apiserver",group="",resource="pods",scope="cluster",subresource="",verb="WATCH",version="v1"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	close(b.release)
	for range 3 {
		if code := <-done; code != http.StatusOK && code != http.StatusCreated {
			t.Errorf("a request under way ended with %d", code)
		}
	}
	if r := joe.get("/api/v1/pods"); r.code != http.StatusOK {
		t.Errorf("after the others: got %d", r.code)
	}
}

func TestPanic(t *testing.T) {
	s := apiservertest.Start(t, func(c *apiserver.Config) { c.Authorizer = &blocking{} })
	r := newClient(t, s.Client("panic")).get("/api/v1/pods")
	if r.code != http.StatusInternalServerError || r.status().Reason != "InternalError" {
		t.Errorf("got %d %s", r.code, r.body)
	}
	if r := newClient(t, s.Admin()).get("/api/v1/pods"); r.code != http.StatusOK {
		t.Errorf("after a panic: got %d", r.code)
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	_, c, k := start(t)
	namespace(t, k, "a")
	// A version ahead of the server takes 3 s to be refused; the client's own limit is shorter. A machine that is slow now and then is not so
	// each time.
	var took time.Duration
	for range 10 {
		began := time.Now()
		r := c.get("/api/v1/pods?resourceVersion=1000000000&timeout=200ms")
		if r.code != http.StatusGatewayTimeout || r.status().Message != "Timeout: request did not complete within the allotted timeout" {
			t.Errorf("got %d %s", r.code, r.body)
		}
		if took = time.Since(began); took < 3*time.Second {
			return
		}
	}
	t.Errorf("took %v, again and again", took)
}

func TestBodies(t *testing.T) {
	_, c, k := start(t)
	namespace(t, k, "a")
	const path = "/api/v1/namespaces/a/configmaps"
	const good = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"NAME"},"data":{"k":"v"}}`
	named := func(name string) string { return strings.ReplaceAll(good, "NAME", name) }
	for _, tc := range []struct {
		method, path, body, contentType string
		code                            int
		message                         string
	}{
		{"POST", path, named("c1"), "application/json", 201, ""},
		{"POST", path, named("c2"), "", 201, ""},
		{"POST", path, named("c3"), "application/json; charset=utf-8", 201, ""},
		{"POST", path, "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: c4\n", "application/yaml", 201, ""},
		{"POST", path, named("c1"), "application/json", 409, `configmaps "c1" already exists`},
		{"POST", path, named("c9"), "text/plain", 415, "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"POST", path, strings.Repeat(" ", 3<<20) + named("c9"), "application/json", 413, "Request entity too large: limit is 3145728"},
		{"PUT", path + "/c1", named("c1"), "application/json", 200, ""},
		{"PATCH", path + "/c1", `{"data":{"k":"w"}}`, "application/merge-patch+json", 200, ""},
		{"PATCH", path + "/c1", `{}`, "application/json", 415, "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"},
		{"DELETE", path + "/c1", "", "", 200, ""},
		{"DELETE", path + "/c1", "", "", 404, `configmaps "c1" not found`},
		{"DELETE", path, "", "", 200, ""},
	} {
		header := []string{}
		if tc.contentType != "" {
			header = append(header, "Content-Type: "+tc.contentType)
		}
		r := c.do(tc.method, tc.path, tc.body, header...)
		if r.code != tc.code {
			t.Errorf("%s %s %.60q: got %d %.300s, want %d", tc.method, tc.path, tc.body, r.code, r.body, tc.code)
		} else if tc.message != "" && r.status().Message != tc.message {
			t.Errorf("%s %s: got %q, want %q", tc.method, tc.path, r.status().Message, tc.message)
		}
	}
	r := c.do("POST", path+"?fieldValidation=Warn", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"w"},"bogus":1}`, "Content-Type: application/json")
	if r.code != 201 || r.header.Get("Warning") != `299 - "unknown field \"bogus\""` {
		t.Errorf("warnings: got %d, %q", r.code, r.header.Values("Warning"))
	}
	r = c.do("POST", path+"?dryRun=All", named("dry"), "Content-Type: application/json", "Accept: application/yaml")
	if r.code != 201 || r.header.Get("Content-Type") != "application/yaml" || c.get(path+"/dry").code != 404 {
		t.Errorf("dry run: got %d %s", r.code, r.body)
	}
	r = c.do("POST", path, named("pb"), "Content-Type: application/json", "Accept: application/vnd.kubernetes.protobuf")
	if r.code != 201 || !strings.HasPrefix(string(r.body), "k8s\x00") {
		t.Errorf("protobuf answer: got %d %.20q", r.code, r.body)
	}
	r = c.do("POST", path, named("meta"), "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	if r.code != 201 || strings.Contains(string(r.body), `"data"`) {
		t.Errorf("metadata answer: got %d %s", r.code, r.body)
	}
}

func TestScale(t *testing.T) {
	_, c, k := start(t)
	namespace(t, k, "a")
	r := c.do("POST", "/apis/apps/v1/namespaces/a/deployments", `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"},
		"spec":{"replicas":3,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	if r.code != 201 {
		t.Fatalf("create: %d %s", r.code, r.body)
	}
	const scale = "/apis/apps/v1/namespaces/a/deployments/d/scale"
	if body := string(c.get(scale).body); !strings.HasPrefix(body, `{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d","namespace":"a"`) || !strings.Contains(body, `"spec":{"replicas":3}`) || !strings.Contains(body, `"selector":"a=b"`) {
		t.Errorf("got %s", body)
	}
	if r := c.do("PATCH", scale, `{"spec":{"replicas":5}}`, "Content-Type: application/merge-patch+json"); r.code != 200 || !strings.Contains(string(r.body), `"replicas":5`) {
		t.Errorf("patch: got %d %s", r.code, r.body)
	}
	if r := c.get(scale, "Accept: application/vnd.kubernetes.protobuf"); r.code != 200 || !strings.HasPrefix(string(r.body), "k8s\x00") {
		t.Errorf("protobuf: got %d %.30q", r.code, r.body)
	}
	var table metav1.Table
	c.get(scale, "Accept: application/json;as=Table;g=meta.k8s.io;v=v1").into(&table)
	if len(table.ColumnDefinitions) != 4 || len(table.Rows) != 1 || table.Rows[0].Cells[0] != "d" || table.Rows[0].Cells[1] != float64(5) {
		t.Errorf("table: %+v", table)
	}
	if body := string(c.get(scale, "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").body); !strings.HasPrefix(body, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"d"`) {
		t.Errorf("metadata: %s", body)
	}
	if r := c.get("/apis/apps/v1/namespaces/a/deployments/d/status"); r.code != 200 || !strings.HasPrefix(string(r.body), `{"kind":"Deployment"`) {
		t.Errorf("status: got %d %s", r.code, r.body)
	}
	if r := c.do("DELETE", scale, ""); r.code != 405 {
		t.Errorf("delete of a subresource: got %d %s", r.code, r.body)
	}
}

// TestConnections_Refused asks for what cannot be reached, in upstream's words.
func TestConnections_Refused(t *testing.T) {
	_, c, _ := start(t)
	const container = `{"name":"%s","image":"i"}`
	one, two := fmt.Sprintf(container, "c"), fmt.Sprintf(container, "d")
	for _, made := range [][2]string{
		{"/api/v1/namespaces", `{"metadata":{"name":"default"}}`},
		{"/api/v1/nodes", `{"metadata":{"name":"n"},"status":{"nodeInfo":{"containerRuntimeVersion":"simulated://1","machineID":"","systemUUID":"","bootID":"","kernelVersion":"","osImage":"","kubeletVersion":"","kubeProxyVersion":"","operatingSystem":"","architecture":""}}}`},
		{"/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{"nodeName":"n","containers":[` + one + `]}}`},
		{"/api/v1/namespaces/default/pods", `{"metadata":{"name":"q"},"spec":{"nodeName":"gone","containers":[` + one + `,` + two + `]}}`},
		{"/api/v1/namespaces/default/pods", `{"metadata":{"name":"waits"},"spec":{"containers":[` + one + `]}}`},
		{"/api/v1/namespaces/default/services", `{"metadata":{"name":"s"},"spec":{"ports":[{"port":80}]}}`},
	} {
		if r := c.do("POST", made[0], made[1]); r.code != 201 {
			t.Fatalf("%s: %d %s", made[0], r.code, r.body)
		}
	}
	for _, tc := range []struct {
		method, path string
		code         int
		want         string
	}{
		{"GET", "pods/none/log", 404, `pods "none" not found`},
		{"GET", "pods/p/log", 501, "node n is simulated: it has no containers and no kubelet to ask"},
		{"POST", "pods/p/exec?command=ls&stdout=1", 501, "node n is simulated: it has no containers and no kubelet to ask"},
		{"GET", "pods/p/log?container=x", 400, "container x is not valid for pod p"},
		{"GET", "pods/q/log", 400, "a container name must be specified for pod q, choose one of: [c d]"},
		{"GET", "pods/q/log?container=d", 404, `nodes "gone" not found`},
		{"GET", "pods/waits/log", 204, ""},
		{"POST", "pods/waits/attach", 400, "pod waits does not have a host assigned"},
		{"POST", "pods/waits/portforward", 400, "pod waits does not have a host assigned"},
		{"POST", "pods/waits/portforward?ports=x", 400, `strconv.ParseInt: parsing "x": invalid syntax`},
		{"GET", "pods/p/log?tailLines=-1", 422, `PodLogOptions "p" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0`},
		{"GET", "pods/p/log?dryRun=All", 400, "dryRun is not supported"},
		{"PUT", "pods/p/exec", 405, "the server does not allow this method on the requested resource"},
		{"GET", "pods/p/proxy/x", 400, "address not allowed"},
		{"GET", "pods/a:b:c:d/proxy/x", 400, `invalid pod request "a:b:c:d"`},
		{"GET", "services/s/proxy/x", 503, `no endpoints available for service "s"`},
		{"GET", "services/s:81/proxy/x", 503, `no service port 81 found for service "s"`},
		{"GET", "services/none:81/proxy/x", 404, `services "none" not found`},
	} {
		r := c.do(tc.method, "/api/v1/namespaces/default/"+tc.path, "")
		if r.code != tc.code || tc.want != "" && r.status().Message != tc.want {
			t.Errorf("%s %s: got %d %s, want %d %s", tc.method, tc.path, r.code, r.body, tc.code, tc.want)
		}
	}
}

// TestConnections_Admission asks admission about a connection before it looks for what is connected to.
func TestConnections_Admission(t *testing.T) {
	s := apiservertest.Start(t, func(c *apiserver.Config) { c.Admission.Enable = []string{"AlwaysDeny"} })
	c := newClient(t, s.Admin())
	for path, want := range map[string]string{
		"namespaces/default/pods/p/exec?command=ls": `pods "p" is forbidden: admission control is denying all modifications`,
		"namespaces/default/services/s/proxy/x":     `services "s" is forbidden: admission control is denying all modifications`,
		"nodes/n/proxy/x":                           `nodes "n" is forbidden: admission control is denying all modifications`,
	} {
		if r := c.do("POST", "/api/v1/"+path, ""); r.code != 403 || r.status().Message != want {
			t.Errorf("%s: got %d %s", path, r.code, r.body)
		}
	}
	if r := c.get("/api/v1/namespaces/default/pods/p/log"); r.code != 404 { // is read, not connected to
		t.Errorf("log: got %d %s", r.code, r.body)
	}
}
