package chain

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/authz/bootstrappolicy"
	"vigil/apiserver/authz/node"
	"vigil/apiserver/authz/rbac"
	"vigil/apiserver/authz/webhook"
)

// patience is how long a request waits for a server that does not know its roles yet.
const patience = 10 * time.Second

// Chain decides. It may be asked before it runs; then it makes all but administrators wait.
type Chain struct {
	config Config
	rbac   *rbac.Authorizer
	node   *node.Authorizer // set by Attach
	caches rbac.Caches

	active atomic.Pointer[active]
	ready  chan struct{} // closed when the objects that decisions need are known
	known  chan struct{} // closed when roles were there at the start, or have been made
	public *rbac.Rules   // what anybody may read of a server that is not ready

	decisions *prometheus.CounterVec

	mu   sync.Mutex
	seen []byte // the configuration file as it was last time
}

// active is the authorizers at one time.
type active struct {
	members authz.Union
	objects bool // some of them work from objects
}

// New reads the configuration. The errors are those of flags and files.
func New(config Config) (*Chain, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Chain{
		config: config, rbac: rbac.New(config.Logger), node: new(node.Authorizer),
		ready: make(chan struct{}), known: make(chan struct{}),
		public: rbac.Compile([]rbacv1.PolicyRule{bootstrappolicy.PublicInfo()}),
	}
	c.decisions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_authorization_decisions_total",
		Help: "Decisions of authorizers to allow or to deny, by type and name of the authorizer.",
	}, []string{"type", "name", "decision"})
	if config.Registerer != nil {
		config.Registerer.MustRegister(c.decisions)
	}
	var rows []row
	if config.File != "" {
		if c.seen, err = os.ReadFile(config.File); err != nil {
			return nil, fmt.Errorf("read authorization configuration: %w", err)
		}
		rows, err = config.parse(c.seen)
	} else {
		rows, err = config.rows()
	}
	if err != nil {
		return nil, err
	}
	return c, c.use(rows)
}

// use makes authorizers of rows and has them decide from now on.
func (c *Chain) use(rows []row) error {
	next := &active{}
	for _, r := range rows {
		var a authz.Authorizer
		switch r.mode {
		case AlwaysAllow:
			a = always{}
		case AlwaysDeny:
			a = never{}
		case ABAC:
			a = r.policies
		case RBAC:
			a, next.objects = c.rbac, true
		case Node:
			a, next.objects = c.node, true
		case Webhook:
			hook, err := webhook.New(*r.hook)
			if err != nil {
				return err
			}
			a = hook
		}
		next.members = append(next.members, authz.Member{Name: r.name, Authorizer: c.count(r, a)})
	}
	c.active.Store(next)
	return nil
}

// Attach gives the chain the caches that decisions are made from. It must be called before Run, and before there are requests.
func (c *Chain) Attach(roles rbac.Caches, nodes node.Caches) {
	c.caches = roles
	*c.node = *node.New(nodes)
}

// Run follows roles, bindings and the configuration file until ctx ends.
func (c *Chain) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.rbac.Follow(ctx, c.caches) })
	group.Go(func() error {
		select {
		case <-c.rbac.Loaded():
		case <-ctx.Done():
			return nil
		}
		if !c.rbac.HasClusterRoles() { // a new cluster: the first ones are being made
			select {
			case <-c.known:
			case <-ctx.Done():
				return nil
			}
		}
		close(c.ready)
		return nil
	})
	if c.config.File != "" {
		group.Go(func() error { return c.reload(ctx) })
	}
	return group.Wait()
}

// Seeded tells the chain that the roles of every cluster are there: it waits until the bindings named, and the roles they refer to, have
// arrived. It is to be called once, while Run runs.
func (c *Chain) Seeded(ctx context.Context, bindings []types.NamespacedName) error {
	if err := c.rbac.WaitBound(ctx, bindings); err != nil {
		return err
	}
	close(c.known)
	return nil
}

// RBAC returns the authorizer by roles, for what asks about rules rather than requests.
func (c *Chain) RBAC() *rbac.Authorizer { return c.rbac }

// Decide implements [authz.Decider].
func (c *Chain) Decide(ctx context.Context, attr *authz.Attributes) (authz.Decision, string, error) {
	if attr.User.InGroup(authn.GroupMasters) {
		return authz.Allow, "", nil
	}
	now := c.active.Load()
	if now.objects {
		select {
		case <-c.ready:
		default:
			if attr.Resource == "" && c.public.Allow(attr) {
				return authz.Allow, "", nil
			}
			if err := c.wait(ctx); err != nil {
				return authz.NoOpinion, "", err
			}
		}
	}
	return now.members.Decide(ctx, attr)
}

// wait waits until there are roles to decide by.
func (c *Chain) wait(ctx context.Context) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for roles and bindings: %w", context.Cause(ctx))
	case <-timer.C:
		return apierrors.NewTooManyRequests("roles and bindings are not loaded yet", 1)
	}
}

// Authorize implements [authz.Authorizer].
func (c *Chain) Authorize(ctx context.Context, attr *authz.Attributes) (allowed bool, reason string, err error) {
	decision, reason, err := c.Decide(ctx, attr)
	return decision == authz.Allow, reason, err
}

// RulesFor implements [authz.RuleResolver].
func (c *Chain) RulesFor(ctx context.Context, user *authn.User, namespace string) (authz.Rules, error) {
	now := c.active.Load()
	if now.objects {
		if err := c.wait(ctx); err != nil {
			return authz.Rules{Incomplete: true}, err
		}
	}
	return now.members.RulesFor(ctx, user, namespace)
}

// always allows everything.
type always struct{}

func (always) Authorize(context.Context, *authz.Attributes) (bool, string, error) {
	return true, "", nil
}

func (always) RulesFor(context.Context, *authn.User, string) (authz.Rules, error) {
	all := []string{"*"}
	return authz.Rules{
		Resource:    []authorizationv1.ResourceRule{{Verbs: all, APIGroups: all, Resources: all}},
		NonResource: []authorizationv1.NonResourceRule{{Verbs: all, NonResourceURLs: all}},
	}, nil
}

// never allows nothing.
type never struct{}

func (never) Authorize(context.Context, *authz.Attributes) (bool, string, error) {
	return false, "Everything is forbidden.", nil
}

func (never) RulesFor(context.Context, *authn.User, string) (authz.Rules, error) {
	return authz.Rules{}, nil
}
