package apiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/audit"
)

// collector is a webhook that keeps the events it gets.
type collector struct {
	*httptest.Server
	mu     sync.Mutex
	events []auditv1.Event
	more   chan struct{}
	hold   chan struct{} // nil, or closed when requests are to be answered
}

func newCollector(t *testing.T, hold chan struct{}) *collector {
	t.Helper()
	c := &collector{more: make(chan struct{}, 1), hold: hold}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if c.hold != nil {
			<-c.hold
		}
		var list auditv1.EventList
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			t.Errorf("what the webhook gets: %v", err)
		}
		c.mu.Lock()
		c.events = append(c.events, list.Items...)
		c.mu.Unlock()
		select {
		case c.more <- struct{}{}:
		default:
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) kubeconfig(t *testing.T) string {
	t.Helper()
	return writeFile(t, "webhook.conf", fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: audit, cluster: {server: %q}}]
contexts: [{name: audit, context: {cluster: audit}}]
current-context: audit
`, c.URL))
}

// wait returns the events that match, once there are n of them.
func (c *collector) wait(t *testing.T, n int, match func(auditv1.Event) bool) []auditv1.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	for {
		c.mu.Lock()
		var found []auditv1.Event
		for _, e := range c.events {
			if match(e) {
				found = append(found, e)
			}
		}
		c.mu.Unlock()
		if len(found) >= n {
			return found
		}
		select {
		case <-c.more:
		case <-ctx.Done():
			t.Fatalf("%d events, want %d: %v", len(found), n, c.events)
		}
	}
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const policyHead = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"

func startAudited(t *testing.T, policy string, change func(*audit.Config)) (*apiservertest.Server, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	config := audit.Config{PolicyFile: writeFile(t, "policy.yaml", policyHead+policy), Registerer: registry}
	change(&config)
	auditor, err := audit.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s := apiservertest.Start(t, func(c *apiserver.Config) { c.Auditor = auditor })
	return s, registry
}

func TestAudit(t *testing.T) {
	hook := newCollector(t, nil)
	s, _ := startAudited(t, `
omitManagedFields: true
rules:
- {level: None, users: [quiet]}
- {level: None, nonResourceURLs: ["/healthz*"]}
- {level: Metadata, resources: [{group: "", resources: [secrets]}]}
- {level: Metadata, verbs: [watch]}
- {level: Request, verbs: [delete]}
- {level: RequestResponse, omitStages: [RequestReceived]}
`, func(c *audit.Config) {
		c.Webhook = audit.WebhookConfig{ConfigFile: hook.kubeconfig(t), Queue: audit.Queue{MaxBatchSize: 10, MaxBatchWait: time.Millisecond}}
	})
	ctx := t.Context()
	client := s.Clientset() // speaks protobuf
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(createNamespace(t, s))
	_, err := client.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"k": "v"}}, metav1.CreateOptions{})
	must(err)
	_, err = client.CoreV1().ConfigMaps("default").Patch(ctx, "c", types.MergePatchType, []byte(`{"data":{"k":"w"}}`), metav1.PatchOptions{})
	must(err)
	_, err = client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": "hunter2"}}, metav1.CreateOptions{})
	must(err)
	must(client.CoreV1().ConfigMaps("default").Delete(ctx, "c", metav1.DeleteOptions{}))
	_, err = client.CoreV1().ConfigMaps("default").Get(ctx, "c", metav1.GetOptions{})
	if err == nil {
		t.Fatal("the config map is still there")
	}

	of := func(verb, resource string) func(auditv1.Event) bool {
		return func(e auditv1.Event) bool {
			return e.Verb == verb && e.ObjectRef != nil && e.ObjectRef.Resource == resource && e.User.Username == "admin"
		}
	}
	created := hook.wait(t, 1, of("create", "configmaps"))[0]
	if created.Level != auditv1.LevelRequestResponse || created.Stage != auditv1.StageResponseComplete || created.ResponseStatus.Code != 201 ||
		created.ObjectRef.Name != "c" || created.ObjectRef.Namespace != "default" || created.ObjectRef.APIVersion != "v1" ||
		created.RequestURI != "/api/v1/namespaces/default/configmaps" || len(created.AuditID) != 36 || len(created.SourceIPs) != 1 {
		t.Errorf("create: %+v", created)
	}
	want := map[string]string{"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""}
	if _, ok := created.Annotations["authorization.k8s.io/reason"]; !ok || created.Annotations["authorization.k8s.io/decision"] != "allow" {
		t.Errorf("annotations are %v, want something like %v", created.Annotations, want)
	}
	var request, response corev1.ConfigMap
	must(json.Unmarshal(created.RequestObject.Raw, &request))
	must(json.Unmarshal(created.ResponseObject.Raw, &response))
	if request.Data["k"] != "v" || request.Kind != "ConfigMap" || response.Data["k"] != "v" || response.UID == "" || response.Kind != "ConfigMap" || len(response.ManagedFields) > 0 {
		t.Errorf("objects: %s and %s", created.RequestObject.Raw, created.ResponseObject.Raw)
	}
	if patched := hook.wait(t, 1, of("patch", "configmaps"))[0]; string(patched.RequestObject.Raw) != `{"data":{"k":"w"}}` {
		t.Errorf("patch: %s", patched.RequestObject.Raw)
	}
	for i, e := range hook.wait(t, 2, of("create", "secrets")) {
		stage := []auditv1.Stage{auditv1.StageRequestReceived, auditv1.StageResponseComplete}[i]
		if e.Stage != stage || e.RequestObject != nil || e.ResponseObject != nil {
			t.Errorf("event %d of a secret: %+v", i, e)
		}
		if text, _ := json.Marshal(e); strings.Contains(string(text), "hunter2") {
			t.Errorf("a secret is in the event: %s", text)
		}
	}
	if deleted := hook.wait(t, 2, of("delete", "configmaps"))[1]; deleted.ResponseObject != nil || deleted.ResponseStatus.Status != "Success" || deleted.ResponseStatus.Details.Name != "c" {
		t.Errorf("delete: %+v", deleted)
	}
	if missed := hook.wait(t, 1, of("get", "configmaps"))[0]; missed.ResponseStatus.Code != 404 || missed.ResponseStatus.Reason != metav1.StatusReasonNotFound ||
		missed.ResponseStatus.Message != `configmaps "c" not found` {
		t.Errorf("get of nothing: %+v", missed.ResponseStatus)
	}

	// A watch has a stage of its own for its start. It is over when it has been answered completely.
	watch, err := client.CoreV1().Secrets("default").Watch(ctx, metav1.ListOptions{})
	must(err)
	hook.wait(t, 2, of("watch", "secrets"))
	watch.Stop()
	stages := []auditv1.Stage{}
	for _, e := range hook.wait(t, 3, of("watch", "secrets")) {
		stages = append(stages, e.Stage)
	}
	if diff := cmp.Diff([]auditv1.Stage{auditv1.StageRequestReceived, auditv1.StageResponseStarted, auditv1.StageResponseComplete}, stages); diff != "" {
		t.Errorf("stages of a watch (-want +got):\n%s", diff)
	}

	// Forbidden, impersonating, unknown, and left out.
	nobody, err := kubernetes.NewForConfig(s.Client("nobody"))
	must(err)
	if _, err := nobody.CoreV1().Pods("default").List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("nobody may list pods")
	}
	refused := hook.wait(t, 1, func(e auditv1.Event) bool { return e.User.Username == "nobody" })[0]
	if refused.ResponseStatus.Code != 403 || refused.Annotations["authorization.k8s.io/decision"] != "forbid" {
		t.Errorf("forbidden: %+v", refused)
	}
	as := s.Admin()
	as.Impersonate = rest.ImpersonationConfig{UserName: "carol", Groups: []string{"system:masters"}}
	carol, err := kubernetes.NewForConfig(as)
	must(err)
	_, err = carol.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must(err)
	if e := hook.wait(t, 1, of("list", "nodes"))[0]; e.ImpersonatedUser == nil || e.ImpersonatedUser.Username != "carol" || !slices.Contains(e.ImpersonatedUser.Groups, "system:masters") {
		t.Errorf("impersonated: %+v", e)
	}
	unknown := s.Anonymous()
	unknown.BearerToken = "made-up-token"
	stranger, err := kubernetes.NewForConfig(unknown)
	must(err)
	if _, err := stranger.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("a made-up token is accepted")
	}
	failed := hook.wait(t, 1, func(e auditv1.Event) bool { return e.ResponseStatus != nil && e.ResponseStatus.Code == 401 })[0]
	if text, _ := json.Marshal(failed); failed.Stage != auditv1.StageResponseStarted || failed.ResponseStatus.Message != "Authentication failed, attempted: bearer" || strings.Contains(string(text), "made-up") {
		t.Errorf("unauthenticated: %s", text)
	}
	hook.mu.Lock()
	defer hook.mu.Unlock()
	for _, e := range hook.events {
		if e.RequestURI == "/healthz" {
			t.Errorf("an event that the policy leaves out: %+v", e)
		}
	}
}

func TestAudit_Log(t *testing.T) {
	for _, format := range []string{"json", "legacy"} {
		t.Run(format, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log", "audit.log")
			s, _ := startAudited(t, "rules: [{level: Metadata, resources: [{group: '', resources: [nodes]}]}]\n", func(c *audit.Config) {
				c.Log = audit.LogConfig{Path: path, Format: format}
			})
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/nodes/n", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Audit-ID", "my-own-id")
			transport, err := rest.HTTPClientFor(s.Admin())
			if err != nil {
				t.Fatal(err)
			}
			resp, err := transport.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := resp.Header.Get("Audit-Id"); got != "my-own-id" {
				t.Errorf("Audit-Id of the response is %q", got)
			}
			if err := s.Stop(); err != nil { // flushes
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(string(data)), "\n")
			if len(lines) != 2 {
				t.Fatalf("the log is %q", data)
			}
			if format == "legacy" {
				if !strings.Contains(lines[1], `AUDIT: id="my-own-id" stage="ResponseComplete"`) || !strings.Contains(lines[1], `response="404"`) {
					t.Errorf("line %q", lines[1])
				}
				return
			}
			var e auditv1.Event
			if err := json.Unmarshal([]byte(lines[1]), &e); err != nil || e.APIVersion != "audit.k8s.io/v1" || e.Kind != "Event" || e.AuditID != "my-own-id" || e.ObjectRef.Name != "n" {
				t.Errorf("line %q: %v", lines[1], err)
			}
		})
	}
}

// A webhook that does not answer holds up nobody; what finds no room is dropped and counted.
func TestAudit_NeverBlocks(t *testing.T) {
	hold := make(chan struct{})
	hook := newCollector(t, hold)
	s, registry := startAudited(t, "omitStages: [RequestReceived]\nrules: [{level: Metadata, resources: [{group: '', resources: [nodes]}]}]\n", func(c *audit.Config) {
		c.Webhook = audit.WebhookConfig{ConfigFile: hook.kubeconfig(t), Queue: audit.Queue{BufferSize: 5, MaxBatchSize: 1}}
	})
	client := s.Clientset()
	for range 50 {
		if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	close(hold)
	kept := hook.wait(t, 5, func(auditv1.Event) bool { return true })
	dropped := countedIn(t, registry, "apiserver_audit_error_total")
	if total := countedIn(t, registry, "apiserver_audit_event_total"); total != 50 || dropped < 43 || dropped > 45 || len(kept) > 7 {
		t.Errorf("%v events were made, %v dropped, %d came", total, dropped, len(kept))
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v %v", problems, err)
	}
}

// countedIn is the sum of a counter in a registry.
func countedIn(t *testing.T, registry *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.Metric {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
