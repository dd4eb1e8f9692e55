package chain_test

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/authz/chain"
)

// oracle is a server that answers reviews: it allows alice, forbids mallory, fails for chaos, and has no opinion on others.
type oracle struct {
	*httptest.Server
	kubeconfig string

	mu    sync.Mutex
	asked []authorizationv1.SubjectAccessReview
}

func newOracle(t *testing.T) *oracle {
	t.Helper()
	o := &oracle{}
	o.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Errorf("review: %v", err)
		}
		o.mu.Lock()
		o.asked = append(o.asked, review)
		o.mu.Unlock()
		switch review.Spec.User {
		case "alice":
			review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: true, Reason: "a friend"}
		case "mallory":
			review.Status = authorizationv1.SubjectAccessReviewStatus{Denied: true, Reason: "no friend"}
		case "chaos":
			http.Error(w, "out of order", http.StatusBadRequest)
			return
		default:
			review.Status.Reason = "never heard of"
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Errorf("answer: %v", err)
		}
	}))
	t.Cleanup(o.Close)
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: o.Certificate().Raw}))
	o.kubeconfig = filepath.Join(t.TempDir(), "webhook.conf")
	config := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: o, cluster: {server: "%s/ask", certificate-authority-data: %s}}],
users: [{name: u}], contexts: [{name: c, context: {cluster: o, user: u}}]}`, o.URL, ca)
	if err := os.WriteFile(o.kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

// questions returns what was asked since the last call.
func (o *oracle) questions() []authorizationv1.SubjectAccessReview {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked := o.asked
	o.asked = nil
	return asked
}

func as(user string) *authz.Attributes {
	return &authz.Attributes{User: &authn.User{Name: user, UID: "u", Groups: []string{"g"}, Extra: map[string][]string{"k": {"v"}}},
		Verb: "list", Group: "apps", Version: "v1", Resource: "deployments", Namespace: "n"}
}

func decide(t *testing.T, c *chain.Chain, attr *authz.Attributes, decision authz.Decision, reason string) {
	t.Helper()
	got, why, err := c.Decide(t.Context(), attr)
	if got != decision || why != reason || err != nil {
		t.Errorf("%s: got %d %q %v, want %d %q", attr.User.Name, got, why, err, decision, reason)
	}
}

func TestWebhook(t *testing.T) {
	o := newOracle(t)
	for _, version := range []string{"v1", "v1beta1"} {
		c, err := chain.New(chain.Config{Modes: []string{"AlwaysDeny", "Webhook", "AlwaysAllow"}, WebhookFile: o.kubeconfig, WebhookVersion: version})
		if err != nil {
			t.Fatal(err)
		}
		attr := as("alice")
		attr.Fields, attr.Labels = fields.ParseSelectorOrDie("metadata.name!=x"), labels.Set{"a": "b"}.AsSelector()
		decide(t, c, attr, authz.Allow, "a friend")
		questions := o.questions()
		if len(questions) != 1 || questions[0].APIVersion != "authorization.k8s.io/"+version {
			t.Fatalf("asked: %+v", questions)
		}
		spec, about := questions[0].Spec, questions[0].Spec.ResourceAttributes
		if spec.UID != "u" || len(spec.Extra["k"]) != 1 || about == nil || about.Group != "apps" || about.Resource != "deployments" || about.Namespace != "n" ||
			about.FieldSelector.Requirements[0].Operator != "NotIn" || about.LabelSelector.Requirements[0].Values[0] != "b" || version == "v1" && spec.Groups[0] != "g" {
			t.Errorf("asked: %+v, %+v", spec, about)
		}
		decide(t, c, attr, authz.Allow, "a friend") // remembered
		decide(t, c, as("mallory"), authz.Deny, "no friend")
		decide(t, c, as("mallory"), authz.Deny, "no friend")
		decide(t, c, as("joe"), authz.Allow, "") // by who comes after
		if questions := o.questions(); len(questions) != 2 {
			t.Errorf("asked %d times, want 2", len(questions))
		}
		decide(t, c, &authz.Attributes{User: &authn.User{Name: "alice"}, Verb: "get", Path: "/metrics"}, authz.Allow, "a friend")
		if questions := o.questions(); len(questions) != 1 || questions[0].Spec.NonResourceAttributes.Path != "/metrics" {
			t.Errorf("asked: %+v", questions)
		}
		decide(t, c, as("chaos"), authz.Allow, "") // who cannot be asked has no opinion
		if rules, err := c.RulesFor(t.Context(), &authn.User{Name: "alice"}, "n"); !rules.Incomplete || err == nil {
			t.Errorf("rules: %+v %v", rules, err)
		}
		o.questions()
	}
}

const configuration = `
apiVersion: apiserver.config.k8s.io/v1
kind: AuthorizationConfiguration
authorizers:
- type: Webhook
  name: oracle.example.com
  webhook:
    timeout: 3s
    authorizedTTL: 30s
    unauthorizedTTL: 30s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: POLICY
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: KUBECONFIG}
    matchConditions:
    - expression: has(request.resourceAttributes)
    - expression: request.resourceAttributes.namespace != 'open'
- type: AlwaysAllow
  name: rest
`

func TestConfiguration(t *testing.T) {
	o := newOracle(t)
	path := filepath.Join(t.TempDir(), "authorization.yaml")
	write := func(policy, extra string) {
		t.Helper()
		text := strings.NewReplacer("POLICY", policy, "KUBECONFIG", o.kubeconfig).Replace(configuration) + extra
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("Deny", "")
	c, err := chain.New(chain.Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	decide(t, c, as("alice"), authz.Allow, "a friend")
	decide(t, c, as("mallory"), authz.Deny, "no friend")
	o.questions()
	open := as("mallory")
	open.Namespace = "open"
	decide(t, c, open, authz.Allow, "")                                                                                 // the condition does not hold
	decide(t, c, &authz.Attributes{User: &authn.User{Name: "mallory"}, Verb: "get", Path: "/metrics"}, authz.Allow, "") // nor this one
	if questions := o.questions(); len(questions) != 0 {
		t.Errorf("asked in spite of the conditions: %+v", questions)
	}
	if decision, _, err := c.Decide(t.Context(), as("chaos")); decision != authz.Deny || err == nil {
		t.Errorf("who cannot be asked: got %d %v", decision, err)
	}

	// A change is taken over, one that is wrong is not.
	write("NoOpinion", "")
	c.Look()
	decide(t, c, as("chaos"), authz.Allow, "")
	write("Nonsense", "")
	c.Look()
	decide(t, c, as("chaos"), authz.Allow, "")
	write("Deny", "- {type: Magic, name: x}\n")
	c.Look()
	decide(t, c, as("chaos"), authz.Allow, "")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	c.Look()
	decide(t, c, as("mallory"), authz.Deny, "no friend")
}

func TestConfiguration_Conditions(t *testing.T) {
	o := newOracle(t)
	for expression, want := range map[string]string{
		"request.user":    "must evaluate to bool",
		"request.nothing": "undefined field 'nothing'",
		"1 +":             "Syntax error",
	} {
		path := filepath.Join(t.TempDir(), "authorization.yaml")
		text := strings.NewReplacer("POLICY", "Deny", "KUBECONFIG", o.kubeconfig, "has(request.resourceAttributes)", expression).Replace(configuration)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := chain.New(chain.Config{File: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", expression, err, want)
		}
	}
}
