// Package webhook asks a server elsewhere: each question is a SubjectAccessReview that is POSTed to it, and the answer is remembered
// for a while. The machinery is k8s.io/apiserver's; start with [New].
package webhook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
)

// Config says whom to ask and when.
type Config struct {
	Name       string
	Kubeconfig string // whose current cluster's URL is POSTed to

	Version                        string        // of SubjectAccessReview: "v1" or "v1beta1"
	AuthorizedTTL, UnauthorizedTTL time.Duration // how long answers are remembered; 0: not at all
	Timeout                        time.Duration // of one question; 0: 30 s

	// DenyOnError refuses what the server does not answer. By default others are asked.
	DenyOnError bool
	// MatchConditions are CEL expressions over the review, which all have to hold for the server to be asked.
	MatchConditions []apiserver.WebhookMatchCondition
	Compiler        authorizationcel.Compiler
}

// retries are those of upstream: 5 attempts within some seconds.
var retries = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}

// Authorizer asks one server.
type Authorizer struct{ hook *webhook.WebhookAuthorizer }

// New prepares; the server is not asked before there is a question.
func New(config Config) (*Authorizer, error) {
	server, err := load(config.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("authorization webhook %s: %w", config.Name, err)
	}
	if server.Timeout = 30 * time.Second; config.Timeout > 0 {
		server.Timeout = config.Timeout
	}
	onError := authorizer.DecisionNoOpinion
	if config.DenyOnError {
		onError = authorizer.DecisionDeny
	}
	hook, err := webhook.New(server, config.Version, config.AuthorizedTTL, config.UnauthorizedTTL, retries, onError,
		config.MatchConditions, config.Name, metrics.NoopAuthorizerMetrics{}, config.Compiler)
	if err != nil {
		return nil, fmt.Errorf("authorization webhook %s: %w", config.Name, err)
	}
	return &Authorizer{hook}, nil
}

func load(kubeconfig string) (*rest.Config, error) {
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", kubeconfig, err)
	}
	config.QPS = -1 // how many requests are served is decided elsewhere
	return config, nil
}

// Decide implements [authz.Decider].
func (a *Authorizer) Decide(ctx context.Context, attr *authz.Attributes) (authz.Decision, string, error) {
	decision, reason, err := a.hook.Authorize(ctx, record(attr))
	switch decision {
	case authorizer.DecisionAllow:
		return authz.Allow, reason, err
	case authorizer.DecisionDeny:
		return authz.Deny, reason, err
	}
	return authz.NoOpinion, reason, err
}

// Authorize implements [authz.Authorizer].
func (a *Authorizer) Authorize(ctx context.Context, attr *authz.Attributes) (allowed bool, reason string, err error) {
	decision, reason, err := a.Decide(ctx, attr)
	return decision == authz.Allow, reason, err
}

var errNoRules = errors.New("webhook authorizer does not support user rule resolution")

// RulesFor implements [authz.RuleResolver]: there is no question for that.
func (a *Authorizer) RulesFor(context.Context, *authn.User, string) (authz.Rules, error) {
	return authz.Rules{Incomplete: true}, errNoRules
}

func record(attr *authz.Attributes) authorizer.AttributesRecord {
	r := authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: attr.User.Name, UID: attr.User.UID, Groups: attr.User.Groups, Extra: attr.User.Extra},
		Verb: attr.Verb,
	}
	if attr.Resource == "" {
		r.Path = attr.Path
		return r
	}
	r.ResourceRequest = true
	r.APIGroup, r.APIVersion, r.Resource, r.Subresource = attr.Group, attr.Version, attr.Resource, attr.Subresource
	r.Namespace, r.Name = attr.Namespace, attr.Name
	if attr.Fields != nil {
		r.FieldSelectorRequirements = attr.Fields.Requirements()
	}
	if attr.Labels != nil {
		r.LabelSelectorRequirements, _ = attr.Labels.Requirements() // of a selector of nothing there are none
	}
	return r
}
