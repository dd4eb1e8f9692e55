// Package chain puts together who decides: the modes that --authorization-mode names, or those of an AuthorizationConfiguration file,
// in their order, behind the rule that group system:masters may do everything.
//
// Start with [New]. What needs the server's caches (Node, RBAC) gets them by [Chain.Attach]; until they are loaded requests wait.
package chain

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/load"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"

	"vigil/apiserver/authz/abac"
	"vigil/apiserver/authz/webhook"
)

// Modes of authorization.
const (
	AlwaysAllow = "AlwaysAllow"
	AlwaysDeny  = "AlwaysDeny"
	ABAC        = "ABAC"
	Webhook     = "Webhook"
	RBAC        = "RBAC"
	Node        = "Node"
)

var modes = []string{AlwaysAllow, AlwaysDeny, ABAC, Webhook, RBAC, Node}

// Config is who decides. The names are those of kube-apiserver's flags; the zero value is Node and RBAC.
type Config struct {
	Modes      []string // --authorization-mode
	PolicyFile string   // --authorization-policy-file, of mode ABAC

	WebhookFile            string        // --authorization-webhook-config-file, of mode Webhook: a kubeconfig
	WebhookVersion         string        // --authorization-webhook-version; "": v1beta1
	WebhookAuthorizedTTL   time.Duration // --authorization-webhook-cache-authorized-ttl; 0: 5 minutes
	WebhookUnauthorizedTTL time.Duration // --authorization-webhook-cache-unauthorized-ttl; 0: 30 s

	// File is --authorization-config: an AuthorizationConfiguration, instead of all of the above. It is read again when it changes.
	File string

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil: no metrics
}

func (c Config) withDefaults() (Config, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.File != "" {
		if len(c.Modes) > 0 || c.PolicyFile != "" || c.WebhookFile != "" {
			return c, errors.New("--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* flags are specified")
		}
		return c, nil
	}
	if c.Modes == nil {
		c.Modes = []string{Node, RBAC}
	}
	if c.WebhookVersion == "" {
		c.WebhookVersion = "v1beta1"
	}
	if c.WebhookAuthorizedTTL == 0 {
		c.WebhookAuthorizedTTL = 5 * time.Minute
	}
	if c.WebhookUnauthorizedTTL == 0 {
		c.WebhookUnauthorizedTTL = 30 * time.Second
	}
	return c, c.check()
}

// check says what is wrong with the modes.
func (c *Config) check() error {
	if len(c.Modes) == 0 {
		return errors.New("at least one authorization-mode must be passed")
	}
	var errs []error
	for i, mode := range c.Modes {
		if !slices.Contains(modes, mode) {
			errs = append(errs, fmt.Errorf("authorization-mode %q is not a valid mode", mode))
		} else if slices.Contains(c.Modes[:i], mode) {
			errs = append(errs, fmt.Errorf("authorization-mode %q has mode specified more than once", c.Modes))
		}
	}
	abac, hook := slices.Contains(c.Modes, ABAC), slices.Contains(c.Modes, Webhook)
	switch {
	case abac && c.PolicyFile == "":
		errs = append(errs, errors.New("authorization-mode ABAC's authorization policy file not passed"))
	case !abac && c.PolicyFile != "":
		errs = append(errs, errors.New("cannot specify --authorization-policy-file without mode ABAC"))
	}
	switch {
	case hook && c.WebhookFile == "":
		errs = append(errs, errors.New("authorization-mode Webhook's authorization config file not passed"))
	case !hook && c.WebhookFile != "":
		errs = append(errs, errors.New("cannot specify --authorization-webhook-config-file without mode Webhook"))
	}
	return errors.Join(errs...)
}

// row is one authorizer as it is configured.
type row struct {
	mode, name string
	hook       *webhook.Config // of mode Webhook
	policies   abac.Policies   // of mode ABAC
}

// rows are what the flags say.
func (c *Config) rows() ([]row, error) {
	var rows []row
	for _, mode := range c.Modes {
		r := row{mode: mode, name: strings.ToLower(mode)}
		switch mode {
		case ABAC:
			var err error
			if r.policies, err = abac.Load(c.PolicyFile); err != nil {
				return nil, err
			}
		case Webhook:
			r.name = "default"
			r.hook = &webhook.Config{
				Name: r.name, Kubeconfig: c.WebhookFile, Version: c.WebhookVersion,
				AuthorizedTTL: c.WebhookAuthorizedTTL, UnauthorizedTTL: c.WebhookUnauthorizedTTL,
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// parse are what an AuthorizationConfiguration says.
func (c *Config) parse(data []byte) ([]row, error) {
	config, err := load.LoadFromData(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.File, err)
	}
	compiler := authorizationcel.NewDefaultCompiler()
	known := sets.New(modes...)
	if errs := validation.ValidateAuthorizationConfiguration(compiler, nil, config, known, sets.New(Webhook)); len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", c.File, errs.ToAggregate())
	}
	var rows []row
	for i := range config.Authorizers {
		a := &config.Authorizers[i]
		r := row{mode: string(a.Type), name: a.Name}
		switch r.mode {
		case ABAC: // its policy file has no place in the configuration
			return nil, fmt.Errorf("%s: authorization-mode ABAC's authorization policy file not passed", c.File)
		case Webhook:
			if r.hook, err = hookOf(a, compiler); err != nil {
				return nil, fmt.Errorf("%s: %w", c.File, err)
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

func hookOf(a *apiserver.AuthorizerConfiguration, compiler authorizationcel.Compiler) (*webhook.Config, error) {
	w := a.Webhook
	if w.ConnectionInfo.Type != apiserver.AuthorizationWebhookConnectionInfoTypeKubeConfigFile || w.ConnectionInfo.KubeConfigFile == nil {
		return nil, fmt.Errorf("authorizer %s: connectionInfo.type %s is not possible here; use KubeConfigFile", a.Name, w.ConnectionInfo.Type)
	}
	hook := &webhook.Config{
		Name: a.Name, Kubeconfig: *w.ConnectionInfo.KubeConfigFile, Version: w.SubjectAccessReviewVersion,
		Timeout: w.Timeout.Duration, DenyOnError: w.FailurePolicy == apiserver.FailurePolicyDeny,
		MatchConditions: w.MatchConditions, Compiler: compiler,
	}
	if w.CacheAuthorizedRequests {
		hook.AuthorizedTTL = w.AuthorizedTTL.Duration
	}
	if w.CacheUnauthorizedRequests {
		hook.UnauthorizedTTL = w.UnauthorizedTTL.Duration
	}
	return hook, nil
}
