package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	upstream "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
)

// Mode is whether and how requests wait for a backend.
type Mode string

// The modes, with upstream's names.
const (
	Batch          Mode = "batch"           // they do not: a bounded queue takes the events, or drops them
	Blocking       Mode = "blocking"        // until the event is written; if that fails, they go on
	BlockingStrict Mode = "blocking-strict" // as blocking, but a request whose first event cannot be written is refused
)

// Config says what is written down, and where to.
type Config struct {
	PolicyFile string // --audit-policy-file
	Log        LogConfig
	Webhook    WebhookConfig

	Logger     *slog.Logger // nil discards
	Registerer prometheus.Registerer
}

// Auditor is made by New. It is safe for use by many goroutines.
type Auditor struct {
	policy  upstream.PolicyRuleEvaluator
	sinks   []sink
	metrics *auditMetrics
	log     *slog.Logger
}

// sink is a backend in the mode it works in.
type sink interface {
	// process takes an event, which it must not keep; false means that it is lost.
	process(e *auditapi.Event) bool
	// strict says that requests depend on process.
	strict() bool
	// run works until ctx ends, and then off what is left.
	run(ctx context.Context) error
}

// New reads the policy and prepares the backends. It returns nil without an error when there is no policy or no backend: then nothing is
// audited.
func New(config Config) (*Auditor, error) {
	if config.PolicyFile == "" || config.Log.Path == "" && config.Webhook.ConfigFile == "" {
		return nil, nil //nolint:nilnil // nil is an Auditor that does nothing
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	rules, err := policy.LoadPolicyFromFile(config.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("audit policy: %w", err)
	}
	a := &Auditor{policy: policy.NewPolicyRuleEvaluator(rules), metrics: newMetrics(config.Registerer), log: config.Logger}
	if config.Log.Path != "" {
		backend, err := newLog(config.Log)
		if err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		if err := a.add("log", config.Log.Queue, backend); err != nil {
			return nil, err
		}
	}
	if config.Webhook.ConfigFile != "" {
		backend, err := newWebhook(config.Webhook)
		if err != nil {
			return nil, fmt.Errorf("audit webhook: %w", err)
		}
		if err := a.add("webhook", config.Webhook.Queue, backend); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Run works off the queues until ctx ends, and then what is left in them.
func (a *Auditor) Run(ctx context.Context) error {
	if a == nil {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range a.sinks {
		g.Go(func() error { return s.run(ctx) })
	}
	return g.Wait()
}

// errNotStored is the answer to requests that may not be done without being written down.
var errNotStored = errors.New("failed to store audit event")

// Begin decides about a request and, if it is to be written down, returns a record of its arrival; nil otherwise. attr is as the authorizer
// gets it, with the user that was authenticated. The error is for the client: the request must not be done.
func (a *Auditor) Begin(r *http.Request, id string, received time.Time, attr *authz.Attributes, longRunning bool) (*Record, error) {
	if a == nil {
		return nil, nil //nolint:nilnil // nil is a Record that does nothing
	}
	rule := a.policy.EvaluatePolicyRule(attributes(attr))
	a.metrics.level(rule.Level)
	if rule.Level == auditapi.LevelNone {
		return nil, nil //nolint:nilnil
	}
	rec := newRecord(a, rule, r, id, received, attr, longRunning)
	if !rec.stage(auditapi.StageRequestReceived, received) {
		a.metrics.rejected.Inc()
		return nil, errNotStored
	}
	return rec, nil
}

// Refused writes down a request whose sender could not be found out. methods are what it tried.
func (a *Auditor) Refused(r *http.Request, id string, received time.Time, attr *authz.Attributes, methods string) {
	if a == nil {
		return
	}
	if attr.User == nil {
		attr.User = &authn.User{}
	}
	rule := a.policy.EvaluatePolicyRule(attributes(attr))
	a.metrics.level(rule.Level)
	if rule.Level == auditapi.LevelNone {
		return
	}
	rec := newRecord(a, rule, r, id, received, attr, true)
	rec.event.ResponseStatus = unauthorized(methods)
	rec.stage(auditapi.StageResponseStarted, time.Now())
}

// emit hands an event to the backends. It is false when one was lost that the request depends on.
func (a *Auditor) emit(e *auditapi.Event) bool {
	a.metrics.events.Inc()
	ok := true
	for _, s := range a.sinks {
		if !s.process(e) && s.strict() {
			ok = false
		}
	}
	return ok
}
