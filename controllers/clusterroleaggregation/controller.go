// Package clusterroleaggregation fills cluster roles that are made of others: the rules of a role with an aggregationRule are those of
// all cluster roles that one of its selectors selects, in order of their names, each rule once.
//
// Follows upstream's pkg/controller/clusterroleaggregation.
package clusterroleaggregation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/informer"
	"vigil/informer/workqueue"
)

// manager is who owns the rules in the managed fields.
const manager = "clusterrole-aggregation-controller"

// Config says what the controller works with. Client and Informers are needed.
type Config struct {
	Client    kubernetes.Interface // may escalate cluster roles
	Informers *informer.Factory    // run by the caller
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics
}

// Controller fills roles.
type Controller struct {
	client kubernetes.Interface
	queue  *workqueue.Queue
	roles  informer.Lister[*rbacv1.ClusterRole]
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	roles := informer.ResourceOf[*rbacv1.ClusterRole]()
	roles.DropManagedFields = true
	c := &Controller{
		client: config.Client,
		queue:  workqueue.New(workqueue.Config{Name: "clusterroleaggregation", Logger: config.Logger, Metrics: config.Metrics}),
		roles:  informer.ListerFor[*rbacv1.ClusterRole](config.Informers.Informer(roles)),
	}
	// Any role may be part of any other, before a change or after it. So all are looked at, once for many events.
	look := func() { c.queue.Add(types.NamespacedName{Name: "all"}) }
	c.roles.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(*informer.Object, bool) { look() },
		OnUpdate: func(_, _ *informer.Object) { look() },
		OnDelete: func(*informer.Object, bool) { look() },
	})
	return c
}

// Run fills roles until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.roles.Informer().WaitForSync(ctx); err != nil {
		return err
	}
	return c.queue.Run(ctx, 1, c.reconcile)
}

// reconcile fills all roles that are made of others.
func (c *Controller) reconcile(ctx context.Context, _ types.NamespacedName) (time.Duration, error) {
	roles, err := c.roles.List("", labels.Everything())
	if err != nil {
		return 0, err
	}
	changed, broken := aggregate(roles)
	for _, role := range changed {
		if err := c.write(ctx, role.Name, role.Rules); err != nil && !apierrors.IsConflict(err) {
			return 0, err
		}
	}
	if broken != nil {
		return 0, workqueue.Terminal(broken)
	}
	return 0, nil
}

// write applies the rules, whoever wrote others.
func (c *Controller) write(ctx context.Context, name string, rules []rbacv1.PolicyRule) error {
	apply := rbacv1ac.ClusterRole(name)
	for i := range rules {
		rule := &rules[i]
		apply.WithRules(rbacv1ac.PolicyRule().WithVerbs(rule.Verbs...).WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).
			WithResourceNames(rule.ResourceNames...).WithNonResourceURLs(rule.NonResourceURLs...))
	}
	if _, err := c.client.RbacV1().ClusterRoles().Apply(ctx, apply, metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
		return fmt.Errorf("apply rules of cluster role %s: %w", name, err)
	}
	return nil
}

// aggregate fills the roles that are made of others and returns those whose rules have changed. Roles may be made of roles that are made
// of others; it goes over them until nothing changes any more. The error names roles whose selectors cannot be read.
func aggregate(roles []*rbacv1.ClusterRole) (changed []*rbacv1.ClusterRole, broken error) {
	slices.SortFunc(roles, func(a, b *rbacv1.ClusterRole) int { return cmp.Compare(a.Name, b.Name) })
	touched := map[*rbacv1.ClusterRole]bool{}
	for range roles { // a chain of them is no longer than that
		settled := true
		broken = nil
		for _, role := range roles {
			if role.AggregationRule == nil {
				continue
			}
			rules, err := rulesFor(role, roles)
			if err != nil {
				broken = errors.Join(broken, fmt.Errorf("cluster role %s: %w", role.Name, err))
				continue
			}
			if !equality.Semantic.DeepEqual(rules, role.Rules) {
				role.Rules, touched[role], settled = rules, true, false
			}
		}
		if settled {
			break
		}
	}
	for _, role := range roles {
		if touched[role] {
			changed = append(changed, role)
		}
	}
	return changed, broken
}

// rulesFor are what a role is made of. The others are in order of their names.
func rulesFor(role *rbacv1.ClusterRole, roles []*rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, err
		}
		for _, part := range roles {
			if part == role || !selector.Matches(labels.Set(part.Labels)) {
				continue
			}
			for _, rule := range part.Rules {
				if !slices.ContainsFunc(rules, func(have rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(have, rule) }) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules, nil
}
