package eviction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"vigil/watchcache"
)

// maxDisruptedPods bounds the map of pods that are on their way out in a budget's status.
const maxDisruptedPods = 2000

// budget returns the disruption budget that guards the pod, nil when there is none. More than one is an error: nobody
// could charge two at once.
func (v *eviction) budget(ctx context.Context) (*policyv1.PodDisruptionBudget, error) {
	snapshot, err := v.snapshot(ctx, v.budgets)
	if err != nil {
		return nil, err
	}
	page, err := snapshot.List(watchcache.Selection{Namespace: v.pod.Namespace}, "", 0)
	if err != nil {
		return nil, fmt.Errorf("list disruption budgets: %w", err)
	}
	var found *policyv1.PodDisruptionBudget
	for _, version := range page.Items {
		obj, err := version.Decode()
		if err != nil {
			return nil, fmt.Errorf("decode disruption budget: %w", err)
		}
		budget := obj.(*policyv1.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(v.pod.Labels)) {
			continue // a broken selector selects nothing
		}
		if found != nil {
			return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
				Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
				Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
			}}
		}
		found = budget
	}
	return found, nil
}

// charge takes one disruption from the budget, and notes the pod there so that the disruption controller does not count
// it any more. Whoever changes the budget meanwhile makes it look again.
func (v *eviction) charge(ctx context.Context, budget *policyv1.PodDisruptionBudget) error {
	backoff := attempts
	for {
		if err := check(budget); err != nil {
			return err
		}
		if len(v.opts.DryRun) > 0 {
			return nil
		}
		err := v.store(ctx, v.charged(budget))
		if !apierrors.IsConflict(err) {
			return err
		}
		if backoff.Steps == 0 {
			return apierrors.NewTimeoutError(fmt.Sprintf("couldn't update PodDisruptionBudget %q due to conflicts", budget.Name), 10)
		}
		if err := pause(ctx, &backoff); err != nil {
			return err
		}
		obj, err := v.read(ctx, v.budgets, budget.Name)
		if err != nil {
			return err
		}
		budget = obj.(*policyv1.PodDisruptionBudget)
	}
}

// check says why a budget cannot be charged, nil when it can.
func check(budget *policyv1.PodDisruptionBudget) error {
	forbidden := func(why string) error {
		resource := policyv1.Resource("poddisruptionbudget") // in the singular, as upstream has it
		return apierrors.NewForbidden(resource, budget.Name, errors.New(why))
	}
	switch s := &budget.Status; {
	case s.ObservedGeneration < budget.Generation:
		return tryLater(budget.Name)
	case s.DisruptionsAllowed < 0:
		return forbidden("pdb disruptions allowed is negative")
	case len(s.DisruptedPods) > maxDisruptedPods:
		return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller")
	case s.DisruptionsAllowed == 0:
		return refused(0, fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
			budget.Name, s.DesiredHealthy, s.CurrentHealthy))
	}
	return nil
}

// charged is the budget with one disruption less.
func (v *eviction) charged(budget *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	budget = budget.DeepCopy()
	s := &budget.Status
	s.DisruptionsAllowed--
	if s.DisruptionsAllowed == 0 {
		apimeta.SetStatusCondition(&s.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
			Reason: policyv1.InsufficientPodsReason, ObservedGeneration: s.ObservedGeneration,
		})
	}
	if s.DisruptedPods == nil {
		s.DisruptedPods = map[string]metav1.Time{}
	}
	s.DisruptedPods[v.pod.Name] = metav1.NewTime(v.config.Now())
	return budget
}

// store writes the status of a budget, as long as nobody else has changed it.
func (v *eviction) store(ctx context.Context, budget *policyv1.PodDisruptionBudget) error {
	budget.TypeMeta = metav1.TypeMeta{Kind: "PodDisruptionBudget", APIVersion: policyv1.SchemeGroupVersion.String()}
	body, err := json.Marshal(budget)
	if err != nil {
		return fmt.Errorf("encode disruption budget %s: %w", budget.Name, err)
	}
	_, err = v.config.Writer.Update(ctx, v.requestFor(v.budgets, budget.Name, "status", body))
	return err
}
