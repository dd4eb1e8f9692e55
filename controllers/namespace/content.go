package namespace

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/controllers/internal/served"
	"vigil/internal/panics"
)

const (
	// pageSize is how many objects are listed at a time.
	pageSize = 500
	// parallel is how many resources of a namespace are dealt with at once.
	parallel = 8
)

// remains is what is left in a namespace after an attempt to empty it.
type remains struct {
	discovery  []error // groups whose resources are not known
	parsing    []error // group versions that cannot be parsed
	deletion   []error // resources that could not be emptied
	objects    map[schema.GroupVersionResource]int
	finalizers map[string]int // objects held by each
	grace      time.Duration  // how long pods may take to end
}

func newRemains() *remains {
	return &remains{objects: map[schema.GroupVersionResource]int{}, finalizers: map[string]int{}}
}

func (r *remains) all() []error {
	var errs []error
	for _, list := range [][]error{r.discovery, r.parsing, r.deletion} {
		errs = append(errs, list...)
	}
	return errs
}

func (r *remains) nothing() bool { return len(r.objects) == 0 && len(r.all()) == 0 }

// wait is when to look again without an event: soon while finalizers hold something, else when half of the pods' grace
// period is over.
func (r *remains) wait() time.Duration {
	if len(r.finalizers) > 0 || r.grace < 2*recheck {
		return recheck
	}
	return r.grace/2 + time.Second
}

// empty deletes everything in a namespace that can be deleted now, and says what is left.
func (c *Controller) empty(ctx context.Context, namespace string, deletedAt time.Time) *remains {
	left := newRemains()
	all, err := served.Discover(ctx, c.client.Discovery())
	if err != nil {
		left.discovery = append(left.discovery, err)
		return left
	}
	for gv, err := range all.Failed {
		left.discovery = append(left.discovery, fmt.Errorf("%s: %w", gv, err))
	}
	left.parsing = all.Malformed
	var rest []served.Resource
	for _, r := range all.Preferred {
		switch {
		case !r.Namespaced || !r.Can("list") || !(r.Can("delete") || r.Can("deletecollection")):
		case r.GVR.GroupResource() == corev1.Resource("pods"):
			c.emptyPods(ctx, r, namespace, deletedAt, left)
		default:
			rest = append(rest, r)
		}
	}
	if left.nothing() || len(left.objects)+len(left.deletion) == 0 { // the pods are gone
		c.emptyAll(ctx, rest, namespace, left)
	}
	return left
}

// emptyPods deletes the pods of a namespace, each with the time to end that it asks for.
func (c *Controller) emptyPods(ctx context.Context, r served.Resource, namespace string, deletedAt time.Time, left *remains) {
	pods, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		left.deletion = append(left.deletion, fmt.Errorf("list pods: %w", err))
		return
	}
	if len(pods.Items) == 0 {
		return
	}
	grace := graceOf(pods.Items, time.Since(deletedAt))
	before := len(left.deletion)
	c.emptyResource(ctx, r, namespace, left, grace > 0)
	if len(left.deletion) == before && len(left.objects) > 0 {
		left.grace = grace
	}
}

// graceOf is the time that the longest grace period of pods that have not ended leaves.
func graceOf(pods []corev1.Pod, elapsed time.Duration) time.Duration {
	var longest time.Duration
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.Spec.TerminationGracePeriodSeconds == nil {
			continue
		}
		longest = max(longest, time.Duration(*p.Spec.TerminationGracePeriodSeconds)*time.Second)
	}
	return max(0, longest-elapsed)
}

// emptyAll empties many resources at once.
func (c *Controller) emptyAll(ctx context.Context, resources []served.Resource, namespace string, left *remains) {
	each := make([]*remains, len(resources))
	var group sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for i, r := range resources {
		each[i] = newRemains()
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			err := panics.Try(c.logger, panics.Reconcile, func() error {
				c.emptyResource(ctx, r, namespace, each[i], false)
				return nil
			}, "resource", r.GVR.GroupResource().String())
			if err != nil {
				each[i].deletion = append(each[i].deletion, err)
			}
		})
	}
	group.Wait()
	for _, one := range each {
		left.deletion = append(left.deletion, one.deletion...)
		for gvr, n := range one.objects {
			left.objects[gvr] = n
		}
		for f, n := range one.finalizers {
			left.finalizers[f] += n
		}
	}
}

// emptyResource deletes the objects of one resource and counts what is still there. Objects may stay without a finalizer
// only when they end gracefully.
func (c *Controller) emptyResource(ctx context.Context, r served.Resource, namespace string, left *remains, graceful bool) {
	first, err := c.count(ctx, r.GVR, namespace, newRemains())
	if err == nil && first == 0 {
		return
	}
	if err == nil {
		err = c.deleteAll(ctx, r, namespace)
	}
	if err == nil {
		held := len(left.finalizers)
		var still int
		if still, err = c.count(ctx, r.GVR, namespace, left); err == nil {
			if still > 0 && len(left.finalizers) == held && !graceful {
				err = fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", namespace, r.GVR)
			}
		}
	}
	if err != nil && !gone(err) {
		left.deletion = append(left.deletion, fmt.Errorf("%s: %w", r.GVR.GroupResource(), err))
	}
}

// gone says that a resource is no longer served, as when its definition was deleted meanwhile.
func gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) }

// deleteAll deletes all objects of a resource in one request, or one by one where the server has no such request.
func (c *Controller) deleteAll(ctx context.Context, r served.Resource, namespace string) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	objects := c.metadata.Resource(r.GVR).Namespace(namespace)
	if r.Can("deletecollection") {
		if err := objects.DeleteCollection(ctx, options, metav1.ListOptions{}); !gone(err) {
			return err
		}
	}
	return c.pages(ctx, r.GVR, namespace, func(o *metav1.PartialObjectMetadata) error {
		err := objects.Delete(ctx, o.Name, options)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// count adds what is there of a resource to left.
func (c *Controller) count(ctx context.Context, gvr schema.GroupVersionResource, namespace string, left *remains) (int, error) {
	n := 0
	err := c.pages(ctx, gvr, namespace, func(o *metav1.PartialObjectMetadata) error {
		n++
		for _, f := range o.Finalizers {
			left.finalizers[f]++
		}
		return nil
	})
	if err == nil && n > 0 {
		left.objects[gvr] = n
	}
	return n, err
}

// pages calls do for each object of a resource, as of one moment if the server still knows it when it comes to the last page.
func (c *Controller) pages(ctx context.Context, gvr schema.GroupVersionResource, namespace string, do func(*metav1.PartialObjectMetadata) error) error {
	options := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := c.metadata.Resource(gvr).Namespace(namespace).List(ctx, options)
		if err != nil {
			return err
		}
		for i := range list.Items {
			if err := do(&list.Items[i]); err != nil {
				return err
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nil
		}
	}
}
