// Package servicecidr says when the networks of ServiceCIDRs may be used, and keeps those that are until nothing needs them.
//
//	new          finalizer, condition Ready=True: API servers give out its addresses
//	deleted      while an IPAddress lies in it that no other ServiceCIDR covers: Ready=False, reason Terminating
//	             else, ten seconds after the deletion, so that all API servers know of it: no finalizer any more
//
// Follows upstream's pkg/controller/servicecidrs (KEP-1880).
package servicecidr

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingac "k8s.io/client-go/applyconfigurations/networking/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/informer"
	"vigil/informer/workqueue"
)

const (
	// finalizer keeps a ServiceCIDR whose addresses are in use.
	finalizer = "networking.k8s.io/service-cidr-finalizer"
	// manager is who owns finalizer and condition in the managed fields.
	manager = "service-cidr-controller"
	// grace is how long after its deletion a network may still be taken for usable by some API server.
	grace = 10 * time.Second
)

// Config says what the controller works with. Client and Informers are needed.
type Config struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	Logger    *slog.Logger
	Metrics   *workqueue.Metrics
}

// Controller looks after ServiceCIDRs.
type Controller struct {
	client    kubernetes.Interface
	queue     *workqueue.Queue
	cidrs     informer.Lister[*networkingv1.ServiceCIDR]
	addresses informer.Lister[*networkingv1.IPAddress]
	now       func() time.Time
}

// New registers the controller's handlers, so it must be called before the informers run.
func New(config Config) *Controller {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	cidrs, addresses := informer.ResourceOf[*networkingv1.ServiceCIDR](), informer.ResourceOf[*networkingv1.IPAddress]()
	cidrs.DropManagedFields, addresses.DropManagedFields = true, true
	c := &Controller{
		client:    config.Client,
		queue:     workqueue.New(workqueue.Config{Name: "servicecidr", Logger: config.Logger, Metrics: config.Metrics}),
		cidrs:     informer.ListerFor[*networkingv1.ServiceCIDR](config.Informers.Informer(cidrs)),
		addresses: informer.ListerFor[*networkingv1.IPAddress](config.Informers.Informer(addresses)),
		now:       time.Now,
	}
	// Whether a network may go depends on all others and on what addresses are left, so all are looked at.
	c.cidrs.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(*informer.Object, bool) { c.lookAtAll() },
		OnUpdate: func(_, _ *informer.Object) { c.lookAtAll() },
		OnDelete: func(*informer.Object, bool) { c.lookAtAll() },
	})
	c.addresses.Informer().AddHandler(informer.EventHandler{OnDelete: func(*informer.Object, bool) { c.lookAtAll() }})
	return c
}

func (c *Controller) lookAtAll() { c.queue.Add(types.NamespacedName{Name: "all"}) }

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	if err := c.cidrs.Informer().WaitForSync(ctx); err != nil {
		return err
	}
	if err := c.addresses.Informer().WaitForSync(ctx); err != nil {
		return err
	}
	return c.queue.Run(ctx, 1, c.reconcile)
}

func (c *Controller) reconcile(ctx context.Context, _ types.NamespacedName) (again time.Duration, err error) {
	all, err := c.cidrs.List("", labels.Everything())
	if err != nil {
		return 0, err
	}
	for _, cidr := range all {
		wait, err := c.one(ctx, cidr, all)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return 0, err
		}
		if wait > 0 && (again == 0 || wait < again) {
			again = wait
		}
	}
	return again, nil
}

// one does what a ServiceCIDR needs, and says when to look again; 0 is when something changes.
func (c *Controller) one(ctx context.Context, cidr *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR) (time.Duration, error) {
	if cidr.DeletionTimestamp == nil {
		if !slices.Contains(cidr.Finalizers, finalizer) {
			if err := c.setFinalizers(ctx, cidr, append(slices.Clone(cidr.Finalizers), finalizer)); err != nil {
				return 0, err
			}
		}
		return 0, c.setReady(ctx, cidr, metav1.ConditionTrue, "NetworksReady", "Kubernetes Service CIDR is ready")
	}
	at := slices.Index(cidr.Finalizers, finalizer)
	if at < 0 {
		return 0, nil
	}
	needed, err := c.needed(cidr, all)
	if err != nil {
		return 0, err
	}
	if needed {
		return 0, c.setReady(ctx, cidr, metav1.ConditionFalse, networkingv1.ServiceCIDRReasonTerminating,
			"There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR")
	}
	if wait := grace - c.now().Sub(cidr.DeletionTimestamp.Time); wait > 0 {
		return wait, nil
	}
	return 0, c.setFinalizers(ctx, cidr, slices.Delete(slices.Clone(cidr.Finalizers), at, at+1))
}

// needed says that an address of a service lies in the networks of cidr, and in no network of another that stays.
func (c *Controller) needed(cidr *networkingv1.ServiceCIDR, all []*networkingv1.ServiceCIDR) (bool, error) {
	var others []netip.Prefix
	for _, other := range all {
		if other.Name != cidr.Name && other.DeletionTimestamp == nil {
			others = append(others, prefixes(other)...)
		}
	}
	addresses, err := c.addresses.List("", labels.Everything())
	if err != nil {
		return false, err
	}
	own := prefixes(cidr)
	for _, address := range addresses {
		ip, err := netip.ParseAddr(address.Name)
		if err != nil {
			continue
		}
		has := func(p netip.Prefix) bool { return p.Contains(ip) }
		if slices.ContainsFunc(own, has) && !slices.ContainsFunc(others, has) {
			return true, nil
		}
	}
	return false, nil
}

func prefixes(cidr *networkingv1.ServiceCIDR) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range cidr.Spec.CIDRs {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}

// setReady applies the condition, unless that is what it says, with whatever message.
func (c *Controller) setReady(ctx context.Context, cidr *networkingv1.ServiceCIDR, status metav1.ConditionStatus, reason, message string) error {
	if have := meta.FindStatusCondition(cidr.Status.Conditions, networkingv1.ServiceCIDRConditionReady); have != nil && have.Status == status {
		return nil
	}
	apply := networkingac.ServiceCIDR(cidr.Name).WithStatus(networkingac.ServiceCIDRStatus().WithConditions(
		metaac.Condition().WithType(networkingv1.ServiceCIDRConditionReady).WithStatus(status).WithReason(reason).WithMessage(message).
			WithLastTransitionTime(metav1.NewTime(c.now()))))
	if _, err := c.client.NetworkingV1().ServiceCIDRs().ApplyStatus(ctx, apply, metav1.ApplyOptions{FieldManager: manager, Force: true}); err != nil {
		return fmt.Errorf("say that service CIDR %s is ready or not: %w", cidr.Name, err)
	}
	return nil
}

// setFinalizers replaces the finalizers of the version that was seen.
func (c *Controller) setFinalizers(ctx context.Context, cidr *networkingv1.ServiceCIDR, finalizers []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": cidr.UID, "resourceVersion": cidr.ResourceVersion, "finalizers": finalizers,
	}})
	if err != nil {
		return err
	}
	_, err = c.client.NetworkingV1().ServiceCIDRs().Patch(ctx, cidr.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		return fmt.Errorf("set finalizers of service CIDR %s: %w", cidr.Name, err)
	}
	return nil
}
