package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"vigil/apiserver/admission"
	"vigil/kinds"
)

// limitRangerAnnotation tells which values of a pod come from limit ranges.
const limitRangerAnnotation = "kubernetes.io/limit-ranger"

// LimitRanger gives containers the default requests and limits of the namespace's LimitRanges, and refuses pods, containers and
// claims outside of the ranges.
type LimitRanger struct{ Reader admission.Reader }

// Name implements admission.Plugin.
func (LimitRanger) Name() string { return "LimitRanger" }

// Handles implements admission.Plugin.
func (LimitRanger) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	switch k.GroupResource() {
	case pods: // whose resources change by resizing only
		return subresource == "" && op == admission.Create || subresource == "resize" && op == admission.Update
	case claims:
		return subresource == "" && op != admission.Delete
	}
	return false
}

func (p LimitRanger) ranges(ctx context.Context, a *admission.Attributes) ([]kinds.Object, error) {
	list, err := p.Reader.List(ctx, limitRanges, a.Namespace)
	if err != nil {
		return nil, admission.Forbidden(a, fmt.Errorf("unable to %s %v at this time because there was an error enforcing limit ranges", a.Operation, a.Resource()))
	}
	return list, nil
}

// Admit implements admission.Mutator.
func (p LimitRanger) Admit(ctx context.Context, a *admission.Attributes) error {
	pod := podOf(a)
	if pod == nil || a.Operation != admission.Create {
		return nil
	}
	list, err := p.ranges(ctx, a)
	if err != nil {
		return err
	}
	for _, obj := range list {
		requests, limits := defaultResources(obj.(*corev1.LimitRange))
		if len(requests)+len(limits) > 0 {
			giveDefaults(pod, requests, limits)
		}
	}
	return nil
}

// Validate implements admission.Validator.
func (p LimitRanger) Validate(ctx context.Context, a *admission.Attributes) error {
	list, err := p.ranges(ctx, a)
	if err != nil {
		return err
	}
	for _, obj := range list {
		limits := obj.(*corev1.LimitRange)
		var errs []error
		switch obj := a.Object.(type) {
		case *corev1.Pod:
			errs = checkPod(limits, obj)
		case *corev1.PersistentVolumeClaim:
			errs = checkClaim(limits, obj)
		}
		if err := utilerrors.NewAggregate(errs); err != nil {
			return admission.Forbidden(a, err)
		}
	}
	return nil
}

func defaultResources(r *corev1.LimitRange) (requests, limits corev1.ResourceList) {
	for i := range r.Spec.Limits {
		if item := &r.Spec.Limits[i]; item.Type == corev1.LimitTypeContainer {
			requests, limits = withAll(requests, item.DefaultRequest), withAll(limits, item.Default)
		}
	}
	return requests, limits
}

func withAll(into, from corev1.ResourceList) corev1.ResourceList {
	if into == nil && len(from) > 0 {
		into = corev1.ResourceList{}
	}
	for name, quantity := range from {
		into[name] = quantity.DeepCopy()
	}
	return into
}

// giveDefaults fills in what containers leave open and notes it in an annotation.
func giveDefaults(pod *corev1.Pod, requests, limits corev1.ResourceList) {
	var notes []string
	each := func(what string, c *corev1.Container) {
		setLimits, setRequests := fill(&c.Resources.Limits, limits), fill(&c.Resources.Requests, requests)
		if len(setRequests) > 0 {
			notes = append(notes, strings.Join(setRequests, ", ")+" request for "+what+" "+c.Name)
		}
		if len(setLimits) > 0 {
			notes = append(notes, strings.Join(setLimits, ", ")+" limit for "+what+" "+c.Name)
		}
	}
	for i := range pod.Spec.Containers {
		each("container", &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		each("init container", &pod.Spec.InitContainers[i])
	}
	if len(notes) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[limitRangerAnnotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
}

// fill adds what is missing and returns its names, sorted.
func fill(into *corev1.ResourceList, defaults corev1.ResourceList) (set []string) {
	for name, quantity := range defaults {
		if _, ok := (*into)[name]; ok {
			continue
		}
		if *into == nil {
			*into = corev1.ResourceList{}
		}
		(*into)[name] = quantity.DeepCopy()
		set = append(set, string(name))
	}
	slices.Sort(set)
	return set
}

func checkPod(r *corev1.LimitRange, pod *corev1.Pod) (errs []error) {
	for i := range r.Spec.Limits {
		item := &r.Spec.Limits[i]
		switch item.Type {
		case corev1.LimitTypeContainer:
			for j := range pod.Spec.Containers {
				res := &pod.Spec.Containers[j].Resources
				errs = append(errs, checkItem(item, res.Requests, res.Limits)...)
			}
			for j := range pod.Spec.InitContainers {
				res := &pod.Spec.InitContainers[j].Resources
				errs = append(errs, checkItem(item, res.Requests, res.Limits)...)
			}
		case corev1.LimitTypePod:
			requests := podTotal(pod, func(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests })
			limits := podTotal(pod, func(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits })
			errs = append(errs, checkItem(item, requests, limits)...)
		}
	}
	return errs
}

func checkItem(item *corev1.LimitRangeItem, requests, limits corev1.ResourceList) (errs []error) {
	add := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, name := range sortedNames(item.Min) {
		add(checkMin(item.Type, name, item.Min[name], requests, limits))
	}
	for _, name := range sortedNames(item.Max) {
		add(checkMax(item.Type, name, item.Max[name], requests, limits))
	}
	for _, name := range sortedNames(item.MaxLimitRequestRatio) {
		add(checkRatio(item.Type, name, item.MaxLimitRequestRatio[name], requests, limits))
	}
	return errs
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// podTotal is what the containers want together, or the largest of what an init container wants if that is more. What not every
// container names is left out. What the pod names itself counts instead.
func podTotal(pod *corev1.Pod, of func(*corev1.ResourceRequirements) corev1.ResourceList) corev1.ResourceList {
	total := corev1.ResourceList{}
	for i := range pod.Spec.Containers {
		list := of(&pod.Spec.Containers[i].Resources)
		if i == 0 {
			total = withAll(total, list)
			continue
		}
		for name, sum := range total {
			quantity, ok := list[name]
			if !ok {
				delete(total, name)
				continue
			}
			sum.Add(quantity)
			total[name] = sum
		}
	}
	for i := range pod.Spec.InitContainers {
		for name, quantity := range of(&pod.Spec.InitContainers[i].Resources) {
			if have, ok := total[name]; !ok || quantity.Cmp(have) > 0 {
				total[name] = quantity.DeepCopy()
			}
		}
	}
	if pod.Spec.Resources != nil {
		total = withAll(total, of(pod.Spec.Resources))
	}
	return total
}

func checkMin(typ corev1.LimitType, name corev1.ResourceName, enforced resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	switch {
	case !requested:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, typ, enforced.String())
	case request.Cmp(enforced) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, typ, enforced.String(), request.String())
	case limited && limit.Cmp(enforced) < 0:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, typ, enforced.String(), limit.String())
	}
	return nil
}

func checkMax(typ corev1.LimitType, name corev1.ResourceName, enforced resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	switch {
	case !limited:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, typ, enforced.String())
	case limit.Cmp(enforced) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, typ, enforced.String(), limit.String())
	case requested && request.Cmp(enforced) > 0:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, typ, enforced.String(), request.String())
	}
	return nil
}

func checkRatio(typ corev1.LimitType, name corev1.ResourceName, enforced resource.Quantity, requests, limits corev1.ResourceList) error {
	request, limit := requests[name], limits[name]
	switch {
	case request.Sign() == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no request is specified or request is 0", name, typ, enforced.String())
	case limit.Sign() == 0:
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but no limit is specified or limit is 0", name, typ, enforced.String())
	}
	ratio := limit.AsApproximateFloat64() / request.AsApproximateFloat64()
	if ratio > enforced.AsApproximateFloat64() {
		return fmt.Errorf("%s max limit to request ratio per %s is %s, but provided ratio is %f", name, typ, enforced.String(), ratio)
	}
	return nil
}

func checkClaim(r *corev1.LimitRange, claim *corev1.PersistentVolumeClaim) (errs []error) {
	for i := range r.Spec.Limits {
		item := &r.Spec.Limits[i]
		if item.Type != corev1.LimitTypePersistentVolumeClaim {
			continue
		}
		for _, name := range sortedNames(item.Min) {
			if err := checkMin(item.Type, name, item.Min[name], claim.Spec.Resources.Requests, nil); err != nil {
				errs = append(errs, err)
			}
		}
		for _, name := range sortedNames(item.Max) {
			request, ok := claim.Spec.Resources.Requests[name]
			enforced := item.Max[name]
			switch {
			case !ok:
				errs = append(errs, fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, item.Type, enforced.String()))
			case request.Cmp(enforced) > 0:
				errs = append(errs, errors.New("maximum "+string(name)+" usage per "+string(item.Type)+" is "+enforced.String()+", but request is "+request.String()))
			}
		}
	}
	return errs
}
