package flowcontrol_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	api "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authn"
	"vigil/apiserver/flowcontrol"
	"vigil/internal/eventually"
)

// world is a server with fairness, and what it is decided by.
type world struct {
	*testing.T
	*apiservertest.Server
	client *kubernetes.Clientset
	fair   *flowcontrol.Controller
}

// start starts a server with 60 seats whose requests may take so long, a quarter of it in a queue.
func start(t *testing.T, timeout time.Duration) *world {
	t.Helper()
	s := apiservertest.Start(t, func(c *apiserver.Config) {
		c.Fairness, c.MaxRequestsInflight, c.MaxMutatingRequestsInflight, c.RequestTimeout = true, 40, 20, timeout
	})
	return &world{t, s, s.Clientset(), s.Fairness()}
}

// level makes a level with one share, which is one seat here, and a schema that leads a user there; then waits until both are in force.
func (w *world) level(name string, response api.LimitResponse, change ...func(*api.LimitedPriorityLevelConfiguration)) {
	w.Helper()
	limited := &api.LimitedPriorityLevelConfiguration{NominalConcurrencyShares: new(int32(1)), BorrowingLimitPercent: new(int32(0)), LimitResponse: response}
	for _, c := range change {
		c(limited)
	}
	_, err := w.client.FlowcontrolV1().PriorityLevelConfigurations().Create(w.Context(), &api.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.PriorityLevelConfigurationSpec{Type: api.PriorityLevelEnablementLimited, Limited: limited},
	}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	schema, err := w.client.FlowcontrolV1().FlowSchemas().Create(w.Context(), &api.FlowSchema{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.FlowSchemaSpec{
		PriorityLevelConfiguration: api.PriorityLevelConfigurationReference{Name: name}, MatchingPrecedence: 50,
		DistinguisherMethod: &api.FlowDistinguisherMethod{Type: api.FlowDistinguisherMethodByUserType},
		Rules: []api.PolicyRulesWithSubjects{{
			Subjects:         []api.Subject{{Kind: api.SubjectKindGroup, Group: &api.GroupSubject{Name: "of-" + name}}},
			NonResourceRules: []api.NonResourcePolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}},
		}},
	}}, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	eventually.True(w, name+" is in force", func() bool {
		header := http.Header{}
		w.fair.Handle(w.Context(), request(name, "a"), header, ignore, func() {})
		return header.Get(api.ResponseHeaderMatchedFlowSchemaUID) == string(schema.UID)
	})
}

var (
	refuse = api.LimitResponse{Type: api.LimitResponseTypeReject}
	ignore = func(bool) {}
)

func queue(queues, length int32) api.LimitResponse {
	return api.LimitResponse{Type: api.LimitResponseTypeQueue, Queuing: &api.QueuingConfiguration{Queues: queues, HandSize: 1, QueueLengthLimit: length}}
}

// request is one of a user that falls under the schema of a level.
func request(level, user string) *flowcontrol.Request {
	r := &flowcontrol.Request{User: &authn.User{Name: user, Groups: []string{"of-" + level, authn.GroupAuthenticated}}}
	r.Info.Path, r.Info.Verb = "/"+user, "get"
	return r
}

// turn is a request that has been handed to the controller.
type turn struct {
	begun  chan struct{} // closed when it is its turn
	header http.Header   // to be read after done
	done   chan bool     // what Handle returned
	end    func()
}

// ask has a request wait for its turn, which it then keeps until end is called. It returns when it is its turn, or when it waits in a queue.
func (w *world) ask(ctx context.Context, r *flowcontrol.Request) *turn {
	w.Helper()
	over := make(chan struct{})
	t := &turn{make(chan struct{}), http.Header{}, make(chan bool, 1), sync.OnceFunc(func() { close(over) })}
	w.Cleanup(t.end)
	queued := make(chan struct{}, 2)
	decided := make(chan struct{})
	go func() {
		served := w.fair.Handle(ctx, r, t.header, func(in bool) {
			if in {
				queued <- struct{}{}
			}
		}, func() {
			close(t.begun)
			<-over
		})
		t.done <- served
		close(decided)
	}()
	select {
	case <-t.begun:
	case <-queued:
	case <-decided:
	case <-time.After(eventually.Limit):
		w.Fatal("the request is neither served nor queued nor refused")
	}
	return t
}

func (t *turn) has() bool {
	select {
	case <-t.begun:
		return true
	default:
		return false
	}
}

// refused checks that a request was refused as clients expect it.
func (w *world) refused(t *turn) {
	w.Helper()
	if <-t.done {
		w.Error("the request was served")
	}
	after, err := strconv.Atoi(t.header.Get("Retry-After"))
	if err != nil || after < 1 || t.header.Get(api.ResponseHeaderMatchedFlowSchemaUID) == "" || t.header.Get(api.ResponseHeaderMatchedPriorityLevelConfigurationUID) == "" {
		w.Errorf("headers of a refusal: %v", t.header)
	}
}

// TestClassification: which schema and level requests of all sorts fall under, by the headers of answers over HTTPS.
func TestClassification(t *testing.T) {
	w := start(t, time.Minute)
	schemas, err := w.client.FlowcontrolV1().FlowSchemas().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	levels, err := w.client.FlowcontrolV1().PriorityLevelConfigurations().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, s := range schemas.Items {
		names[string(s.UID)] = s.Name
	}
	for _, l := range levels.Items {
		names[string(l.UID)] = l.Name
	}
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"
	for _, tc := range []struct {
		user, groups, path string
		schema, level      string
	}{
		{"root", "system:masters", "/api/v1/nodes", "exempt", "exempt"},
		{"root", "system:masters", "/healthz", "exempt", "exempt"},
		{"anybody", "", "/healthz", "probes", "exempt"},
		{"system:node:n", "system:nodes", "/api/v1/nodes/n", "system-node-high", "node-high"},
		{"system:node:n", "system:nodes", "/api/v1/pods", "system-nodes", "system"},
		{"system:node:n", "system:nodes", "/api/v1/nodes/n/status", "system-node-high", "node-high"},
		{"system:node:n", "system:nodes", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n", "system-node-high", "node-high"},
		{"system:kube-controller-manager", "", leases, "system-leader-election", "leader-election"},
		{"system:kube-scheduler", "", "/api/v1/nodes", "kube-scheduler", "workload-high"},
		{"system:kube-controller-manager", "", "/api/v1/pods", "kube-controller-manager", "workload-high"},
		{"system:serviceaccount:kube-system:deployment-controller", "system:serviceaccounts system:serviceaccounts:kube-system", "/api/v1/pods", "kube-system-service-accounts", "workload-high"},
		{"system:serviceaccount:kube-system:endpoint-controller", "system:serviceaccounts system:serviceaccounts:kube-system", "/apis/discovery.k8s.io/v1/endpointslices", "kube-system-service-accounts", "workload-high"},
		{"system:serviceaccount:default:default", "system:serviceaccounts system:serviceaccounts:default", "/api/v1/namespaces/default/pods", "service-accounts", "workload-low"},
		{"anybody", "", "/api/v1/pods", "global-default", "global-default"},
		{"anybody", "", "/version", "global-default", "global-default"},
	} {
		client, err := rest.HTTPClientFor(w.Client(tc.user, strings.Fields(tc.groups)...))
		if err != nil {
			t.Fatal(err)
		}
		var schema, level string
		get := func() bool {
			resp, err := client.Get(w.URL + tc.path)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			schema, level = names[resp.Header.Get(api.ResponseHeaderMatchedFlowSchemaUID)], names[resp.Header.Get(api.ResponseHeaderMatchedPriorityLevelConfigurationUID)]
			return schema == tc.schema && level == tc.level
		}
		eventually.Nil(t, "the objects that are there are in force", func() error {
			if !get() {
				return fmt.Errorf("GET %s by %s falls under %q and %q, want %q and %q", tc.path, tc.user, schema, level, tc.schema, tc.level)
			}
			return nil
		})
		client.CloseIdleConnections()
	}
}

// TestHandle: seats are had one after the other, and come back whatever becomes of a request.
func TestHandle(t *testing.T) {
	w := start(t, time.Hour)
	ctx := t.Context()
	w.level("refusing", refuse)
	w.level("queueing", queue(1, 1))
	w.level("fair", queue(64, 10))
	with := func(t *testing.T) *world { return &world{t, w.Server, w.client, w.fair} }

	t.Run("one seat", func(t *testing.T) {
		w := with(t)
		first := w.ask(ctx, request("refusing", "a"))
		w.refused(w.ask(ctx, request("refusing", "b")))
		if other := w.ask(ctx, request("queueing", "b")); !other.has() {
			t.Error("a request of another level waits")
		} else {
			other.end()
			<-other.done
		}
		first.end()
		if !<-first.done {
			t.Error("the first request was refused")
		}
		again := w.ask(ctx, request("refusing", "b"))
		if !again.has() {
			t.Error("the seat did not come back")
		}
		again.end()
		<-again.done
	})
	t.Run("seats of a panic come back", func(t *testing.T) {
		w := with(t)
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			w.fair.Handle(ctx, request("refusing", "a"), http.Header{}, ignore, func() { panic("here") })
		}()
		again := w.ask(ctx, request("refusing", "a"))
		if !again.has() {
			t.Error("the seat did not come back")
		}
		again.end()
		<-again.done
	})
	t.Run("more seats than there are", func(t *testing.T) {
		w := with(t)
		large := request("refusing", "a")
		large.Seats = 1000
		first := w.ask(ctx, large)
		if !first.has() {
			t.Error("it never has its turn")
		}
		first.end()
		<-first.done
	})
	t.Run("a full queue", func(t *testing.T) {
		w := with(t)
		first, second := w.ask(ctx, request("queueing", "a")), w.ask(ctx, request("queueing", "a"))
		if !first.has() || second.has() {
			t.Errorf("it is the first's turn: %t, the second's: %t", first.has(), second.has())
		}
		w.refused(w.ask(ctx, request("queueing", "a")))
		first.end()
		<-second.begun
		second.end()
		if !<-first.done || !<-second.done {
			t.Error("a request that has had its turn counts as refused")
		}
	})
	t.Run("a client that goes while it waits", func(t *testing.T) {
		w := with(t)
		first := w.ask(ctx, request("queueing", "a"))
		gone, cancel := context.WithCancel(ctx)
		second := w.ask(gone, request("queueing", "a"))
		cancel()
		if <-second.done {
			t.Error("the one who went was served")
		}
		third := w.ask(ctx, request("queueing", "a")) // the queue has room again
		first.end()
		<-third.begun
		third.end()
		<-first.done
		<-third.done
	})
	t.Run("a flow with many requests does not keep another waiting", func(t *testing.T) {
		w := with(t)
		first := w.ask(ctx, request("fair", "greedy"))
		var greedy []*turn
		for range 5 {
			greedy = append(greedy, w.ask(ctx, request("fair", "greedy")))
		}
		modest := w.ask(ctx, request("fair", "modest"))
		first.end()
		<-first.done
		before := 0
		for served := false; !served; {
			eventually.True(w, "somebody's turn", func() bool {
				if served = modest.has(); served {
					return true
				}
				for i, g := range greedy {
					if g.has() {
						g.end()
						<-g.done
						greedy = append(greedy[:i:i], greedy[i+1:]...)
						before++
						return true
					}
				}
				return false
			})
		}
		if before > 1 {
			t.Errorf("%d requests that came before it in another flow were served first, want 1 at most", before)
		}
		modest.end()
		<-modest.done
		for _, g := range greedy {
			g.end()
			<-g.done
		}
	})
	t.Run("a configuration that changes", func(t *testing.T) {
		w := with(t)
		first := w.ask(ctx, request("refusing", "a"))
		w.refused(w.ask(ctx, request("refusing", "b")))
		patch := func(body string) {
			t.Helper()
			if _, err := w.client.FlowcontrolV1().PriorityLevelConfigurations().Patch(ctx, "refusing", types.MergePatchType, []byte(body), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		patch(`{"spec":{"limited":{"nominalConcurrencyShares":100}}}`)
		var second *turn
		eventually.True(w, "a second seat", func() bool {
			second = w.ask(ctx, request("refusing", "b"))
			return second.has()
		})
		second.end()
		<-second.done
		patch(`{"spec":{"limited":{"nominalConcurrencyShares":1,"limitResponse":{"type":"Queue","queuing":{"queues":1,"handSize":1,"queueLengthLimit":10}}}}}`)
		var waits *turn
		eventually.True(w, "a queue", func() bool {
			waits = w.ask(ctx, request("refusing", "b"))
			if waits.has() {
				waits.end()
			}
			select {
			case <-waits.done:
				return false
			default:
				return !waits.has()
			}
		})
		first.end()
		<-waits.begun
		waits.end()
		<-waits.done
		if err := w.client.FlowcontrolV1().FlowSchemas().Delete(ctx, "refusing", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		fallback, err := w.client.FlowcontrolV1().FlowSchemas().Get(ctx, "global-default", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		eventually.True(w, "another schema", func() bool {
			header := http.Header{}
			return w.fair.Handle(ctx, request("refusing", "a"), header, ignore, func() {}) && header.Get(api.ResponseHeaderMatchedFlowSchemaUID) == string(fallback.UID)
		})
	})
}

// TestHandle_Wait: who has waited for a quarter of the time that a request may take is refused, and told so over HTTPS.
func TestHandle_Wait(t *testing.T) {
	w := start(t, 4*time.Second)
	w.level("queueing", queue(1, 10))
	first := w.ask(t.Context(), request("queueing", "a"))
	began := time.Now()
	w.refused(w.ask(t.Context(), request("queueing", "a")))
	if waited := time.Since(began); waited < time.Second {
		t.Errorf("refused after %v, want a second at least", waited)
	}
	client, err := rest.HTTPClientFor(w.Client("a", "of-queueing"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	resp, err := client.Get(w.URL + "/version")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || string(body) != "Too many requests, please try again later.\n" {
		t.Errorf("got %s, %v, %q", resp.Status, resp.Header, body)
	}
	first.end()
	<-first.done
}

// TestBorrowing: a level without work of its own lends its seats to one that has too much, as far as both allow.
func TestBorrowing(t *testing.T) {
	w := start(t, time.Hour)
	w.level("lends", refuse, func(l *api.LimitedPriorityLevelConfiguration) {
		l.NominalConcurrencyShares, l.LendablePercent = new(int32(245)), new(int32(100))
	})
	w.level("borrows", queue(8, 100), func(l *api.LimitedPriorityLevelConfiguration) { l.BorrowingLimitPercent = new(int32(300)) })
	w.level("does-not", queue(8, 100))
	var borrowing, not []*turn
	for i := range 10 {
		borrowing = append(borrowing, w.ask(t.Context(), request("borrows", fmt.Sprint("u", i))))
		not = append(not, w.ask(t.Context(), request("does-not", fmt.Sprint("u", i))))
	}
	served := func(turns []*turn) (n int) {
		for _, turn := range turns {
			if turn.has() {
				n++
			}
		}
		return n
	}
	eventually.True(w, "four requests at once: one's own seat and three times as many borrowed", func() bool { return served(borrowing) == 4 })
	if n := served(not); n != 1 {
		t.Errorf("%d requests at once of a level that may not borrow, want 1", n)
	}
	for _, turn := range append(borrowing, not...) {
		turn.end()
	}
	for _, turn := range append(borrowing, not...) {
		<-turn.done
	}
}

// TestListSeats: a list takes a seat for each hundred objects.
func TestListSeats(t *testing.T) {
	for objects, want := range map[int]uint64{0: 1, 1: 1, 100: 1, 101: 2, 1000: 10, 100_000: 1000} {
		if got := flowcontrol.ListSeats(objects); got != want {
			t.Errorf("%d objects: %d seats, want %d", objects, got, want)
		}
	}
}
