package apiserver_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authz"
)

// fair is a server with rules of its own for one user.
type fair struct {
	*apiservertest.Server
	t    *testing.T
	http map[string]*http.Client // by user
	hold *holding
}

func startFair(t *testing.T) *fair {
	t.Helper()
	hold := &holding{released: map[string]chan struct{}{}}
	s := apiservertest.Start(t, func(c *apiserver.Config) {
		c.Fairness = true
		c.MaxRequestsInflight, c.MaxMutatingRequestsInflight = 20, 10
		c.RequestTimeout = 40 * time.Second
		hold.Authorizer = c.Authorizer
		c.Authorizer = hold
	})
	f := &fair{hold: hold, Server: s, t: t, http: map[string]*http.Client{}}
	if err := createNamespace(t, s); err != nil {
		t.Fatal(err)
	}
	return f
}

// client is an HTTP client of a user who may do everything in the cluster, but for the user "admin" not as a master.
func (f *fair) client(user string) *http.Client {
	f.t.Helper()
	if f.http[user] == nil {
		config := f.Client(user)
		if user == "admin" {
			config = f.Admin()
		}
		c, err := rest.HTTPClientFor(config)
		if err != nil {
			f.t.Fatal(err)
		}
		f.http[user] = c
	}
	return f.http[user]
}

// do sends a request and returns the answer without its body.
func (f *fair) do(user, method, path string, body io.Reader) *http.Response {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, f.URL+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := f.client(user).Do(req)
	if err != nil {
		f.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp
}

// level makes a level of one seat for the user and waits until it is in force.
func (f *fair) level(name, user string, response flowcontrolv1.LimitResponse) {
	f.t.Helper()
	ctx, client := f.t.Context(), f.Clientset().FlowcontrolV1()
	one, none := int32(1), int32(0)
	level, err := client.PriorityLevelConfigurations().Create(ctx, &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
			NominalConcurrencyShares: &one, BorrowingLimitPercent: &none, LimitResponse: response,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	_, err = client.FlowSchemas().Create(ctx, &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: name},
			MatchingPrecedence:         50,
			DistinguisherMethod:        &flowcontrolv1.FlowDistinguisherMethod{Type: flowcontrolv1.FlowDistinguisherMethodByUserType},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: user}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, Namespaces: []string{"*"}, ClusterScope: true,
				}},
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for f.do(user, http.MethodGet, "/api/v1/namespaces/default/configmaps", nil).Header.Get("X-Kubernetes-PF-PriorityLevel-UID") != string(level.UID) {
		if f.t.Context().Err() != nil {
			f.t.Fatalf("level %s is never in force", name)
		}
	}
}

// holding is an authorizer that does not decide about objects called held-NAME before they are released.
type holding struct {
	authz.Authorizer
	mu       sync.Mutex
	released map[string]chan struct{}
}

func (h *holding) Authorize(ctx context.Context, a *authz.Attributes) (bool, string, error) {
	h.mu.Lock()
	released := h.released[a.Name]
	h.mu.Unlock()
	if released != nil {
		<-released
	}
	return h.Authorizer.Authorize(ctx, a)
}

// occupy has the user send a request that is not over before release is called, and returns when it is being served.
func (f *fair) occupy(user, name string) (release func() *http.Response) {
	f.t.Helper()
	name = "held-" + name
	released := make(chan struct{})
	f.hold.mu.Lock()
	f.hold.released[name] = released
	f.hold.mu.Unlock()
	answer := make(chan *http.Response, 1)
	go func() { answer <- f.do(user, http.MethodGet, "/api/v1/namespaces/default/configmaps/"+name, nil) }()
	for !strings.Contains(f.dump("dump_requests?includeRequestDetails=1"), user) { // executing requests are shown, too
		if f.t.Context().Err() != nil {
			f.t.Fatal("the request is never served")
		}
	}
	return func() *http.Response {
		close(released)
		return <-answer
	}
}

func (f *fair) dump(page string) string {
	f.t.Helper()
	text, err := f.Clientset().RESTClient().Get().RequestURI("/debug/api_priority_and_fairness/" + page).DoRaw(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

func TestFairness(t *testing.T) {
	f := startFair(t)
	queue := func(length int32) flowcontrolv1.LimitResponse {
		return flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeQueue, Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 1, HandSize: 1, QueueLengthLimit: length}}
	}
	const list = "/api/v1/namespaces/default/configmaps"
	// Both may do it all: authorization comes after fairness, and is not what this is about.
	f.level("refusing", "system:kube-controller-manager", flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject})
	f.level("queueing", "system:kube-scheduler", queue(1))

	t.Run("a watch holds no seat", func(t *testing.T) {
		client, err := kubernetes.NewForConfig(f.Client("system:kube-controller-manager"))
		if err != nil {
			t.Fatal(err)
		}
		watch, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Stop()
		// The seat is given back a moment after the response has begun.
		for f.do("system:kube-controller-manager", http.MethodGet, list, nil).StatusCode == http.StatusTooManyRequests {
			if t.Context().Err() != nil {
				t.Fatal("a request beside a watch is refused")
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		release := f.occupy("system:kube-controller-manager", "a")
		resp := f.do("system:kube-controller-manager", http.MethodGet, list, nil)
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || resp.Header.Get("X-Kubernetes-PF-FlowSchema-UID") == "" {
			t.Errorf("beside a request that takes the only seat: %s, %v", resp.Status, resp.Header)
		}
		for _, other := range []string{"admin", "system:kube-proxy", "nobody"} {
			if resp := f.do(other, http.MethodGet, list, nil); resp.StatusCode == http.StatusTooManyRequests {
				t.Errorf("%s suffers from it", other)
			}
		}
		if resp := release(); resp.StatusCode == http.StatusTooManyRequests {
			t.Errorf("the first: %s", resp.Status)
		}
		if resp := f.do("system:kube-controller-manager", http.MethodGet, list, nil); resp.StatusCode == http.StatusTooManyRequests {
			t.Errorf("afterwards: %s", resp.Status)
		}
	})
	t.Run("queued", func(t *testing.T) {
		release := f.occupy("system:kube-scheduler", "b")
		second := make(chan *http.Response, 1)
		go func() { second <- f.do("system:kube-scheduler", http.MethodGet, list, nil) }()
		for !waits(f.dump("dump_priority_levels"), "queueing") {
			if t.Context().Err() != nil {
				t.Fatal("the second request is never queued")
			}
		}
		if resp := f.do("system:kube-scheduler", http.MethodGet, list, nil); resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("with the queue full: %s", resp.Status)
		}
		release()
		if resp := <-second; resp.StatusCode == http.StatusTooManyRequests {
			t.Errorf("the one that waited: %s", resp.Status)
		}
	})
	t.Run("metrics", func(t *testing.T) {
		text, err := f.Clientset().RESTClient().Get().RequestURI("/metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`apiserver_flowcontrol_rejected_requests_total{flow_schema="refusing",priority_level="refusing",reason="concurrency-limit"}`,
			`apiserver_flowcontrol_rejected_requests_total{flow_schema="queueing",priority_level="queueing",reason="queue-full"}`,
			`apiserver_flowcontrol_dispatched_requests_total{flow_schema="exempt",priority_level="exempt"}`,
			`apiserver_flowcontrol_nominal_limit_seats{priority_level="system"}`,
			`apiserver_flowcontrol_current_executing_requests{flow_schema="queueing",priority_level="queueing"} 0`,
			`apiserver_dropped_requests_total{request_kind="readOnly"}`,
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("no %s in the metrics", want)
			}
		}
	})
	t.Run("dangling", func(t *testing.T) {
		client := f.Clientset().FlowcontrolV1()
		if err := client.PriorityLevelConfigurations().Delete(t.Context(), "refusing", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		for {
			schema, err := client.FlowSchemas().Get(ctx, "refusing", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if len(schema.Status.Conditions) == 1 && schema.Status.Conditions[0].Type == flowcontrolv1.FlowSchemaConditionDangling && schema.Status.Conditions[0].Status == flowcontrolv1.ConditionTrue {
				return
			}
		}
	})
}

// waits says whether dump_priority_levels shows a request in the queues of a level: the fifth column counts them.
func waits(dump, level string) bool {
	for line := range strings.Lines(dump) {
		if columns := strings.Split(line, ","); columns[0] == level {
			return strings.TrimSpace(columns[4]) == "1"
		}
	}
	return false
}

// The objects that every cluster has are there, stay as they are, and follow the administrator where they should.
func TestFairness_Objects(t *testing.T) {
	f := startFair(t)
	ctx, client := t.Context(), f.Clientset().FlowcontrolV1()
	levels, err := client.PriorityLevelConfigurations().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	schemas, err := client.FlowSchemas().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(levels.Items) != 8 || len(schemas.Items) != 11 {
		t.Errorf("%d levels and %d schemas", len(levels.Items), len(schemas.Items))
	}
	for _, level := range levels.Items {
		if level.Annotations["apf.kubernetes.io/autoupdate-spec"] != "true" {
			t.Errorf("annotations of %s: %v", level.Name, level.Annotations)
		}
	}
	ensure := f.Fairness().Ensure
	patch := func(name, body string) {
		t.Helper()
		if _, err := client.PriorityLevelConfigurations().Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	shares := func(name string) int32 {
		t.Helper()
		level, err := client.PriorityLevelConfigurations().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return *level.Spec.Limited.NominalConcurrencyShares
	}
	patch("system", `{"spec":{"limited":{"nominalConcurrencyShares":77}}}`)
	patch("workload-low", `{"metadata":{"annotations":{"apf.kubernetes.io/autoupdate-spec":"false"}},"spec":{"limited":{"nominalConcurrencyShares":77}}}`)
	if err := client.FlowSchemas().Delete(ctx, "catch-all", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for shares("system") != 30 { // Ensure reads the cache, which may lag behind the patch
		if err := ensure(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if got := shares("workload-low"); got != 77 {
		t.Errorf("the administrator's shares of workload-low became %d", got)
	}
	if _, err := client.FlowSchemas().Get(ctx, "catch-all", metav1.GetOptions{}); err != nil {
		t.Errorf("a mandatory object that was deleted: %v", err)
	}
}
