package flowcontrol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

	"vigil/apiserver/write"
	"vigil/kinds"
)

// keepEvery is how often the objects are looked at, as upstream's.
const keepEvery = time.Minute

// keep ensures the objects again and again until ctx ends: somebody may delete or change them.
func (c *Controller) keep(ctx context.Context) error {
	if err := c.WaitSynced(ctx); err != nil {
		return nil // ctx has ended
	}
	ticker := time.NewTicker(keepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := c.Ensure(ctx); err != nil && ctx.Err() == nil {
			c.config.Logger.Warn("the API server could not restore the FlowSchemas and PriorityLevelConfigurations that every cluster has; it tries again", "after", keepEvery, "error", err)
		}
	}
}

// Ensure makes the FlowSchemas and PriorityLevelConfigurations that every cluster has, and brings their specs back. The mandatory ones are always
// as they should be. A suggested one is left alone when its annotation apf.kubernetes.io/autoupdate-spec says false, or when there is none and
// somebody has changed its spec. What earlier releases suggested and this one does not is removed, if it has that annotation. Follows upstream's
// registry/flowcontrol/ensurer.
func (c *Controller) Ensure(ctx context.Context) error {
	if err := c.WaitSynced(ctx); err != nil {
		return err
	}
	levels, schemas := c.kind("prioritylevelconfigurations"), c.kind("flowschemas")
	var errs []error
	known := map[string]bool{}
	each := func(k *kinds.Kind, mandatory bool, obj kinds.Object) {
		known[k.Resource+"/"+obj.GetName()] = true
		if err := c.ensure(ctx, k, mandatory, obj); err != nil {
			errs = append(errs, fmt.Errorf("ensure %s %s: %w", k.Resource, obj.GetName(), err))
		}
	}
	for _, o := range bootstrap.SuggestedPriorityLevelConfigurations {
		each(levels, false, o)
	}
	for _, o := range bootstrap.SuggestedFlowSchemas {
		each(schemas, false, o)
	}
	for _, o := range bootstrap.MandatoryPriorityLevelConfigurations {
		each(levels, true, o)
	}
	for _, o := range bootstrap.MandatoryFlowSchemas {
		each(schemas, true, o)
	}
	for k, from := range map[*kinds.Kind]*source{schemas: c.schemas, levels: c.levels} {
		for _, o := range from.objects.List() {
			obj := o.(kinds.Object)
			if known[k.Resource+"/"+obj.GetName()] || obj.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey] != "true" {
				continue
			}
			if err := c.remove(ctx, k, obj); err != nil {
				errs = append(errs, fmt.Errorf("remove %s %s: %w", k.Resource, obj.GetName(), err))
			}
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) ensure(ctx context.Context, k *kinds.Kind, mandatory bool, want kinds.Object) error {
	want = want.DeepCopyObject().(kinds.Object)
	want.GetObjectKind().SetGroupVersionKind(k.GVK)
	v, ok := c.config.Cache(k).Get(c.config.Prefix + k.Path + "/" + want.GetName())
	if !ok {
		want.SetAnnotations(map[string]string{flowcontrolv1.AutoUpdateAnnotationKey: "true"})
		request, err := c.request(k, "", want)
		if err == nil {
			_, err = c.config.Writer.Create(ctx, request)
		}
		if apierrors.IsAlreadyExists(err) {
			return nil // another server was faster
		}
		return err
	}
	decoded, err := v.Decode()
	if err != nil {
		return err
	}
	now := decoded.(kinds.Object)
	next := now.DeepCopyObject().(kinds.Object)
	auto := mandatory || updatedByItself(now)
	setAnnotation(next, strconv.FormatBool(auto))
	if auto {
		k.Default(want)
		copySpec(next, want)
	}
	if equality.Semantic.DeepEqual(now, next) {
		return nil
	}
	next.GetObjectKind().SetGroupVersionKind(k.GVK)
	request, err := c.request(k, next.GetName(), next)
	if err == nil {
		_, err = c.config.Writer.Update(ctx, request)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // somebody is at it; there is a next time
	}
	return err
}

// updatedByItself says whether the spec of a suggested object follows the release.
func updatedByItself(obj kinds.Object) bool {
	auto, err := strconv.ParseBool(obj.GetAnnotations()[flowcontrolv1.AutoUpdateAnnotationKey])
	if err != nil {
		return obj.GetGeneration() == 1 // nobody has changed it
	}
	return auto
}

func setAnnotation(obj kinds.Object, value string) {
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[flowcontrolv1.AutoUpdateAnnotationKey] = value
	obj.SetAnnotations(annotations)
}

func copySpec(to, from kinds.Object) {
	switch to := to.(type) {
	case *flowcontrolv1.FlowSchema:
		to.Spec = from.(*flowcontrolv1.FlowSchema).Spec
	case *flowcontrolv1.PriorityLevelConfiguration:
		to.Spec = from.(*flowcontrolv1.PriorityLevelConfiguration).Spec
	}
}

// remove deletes what is still as it was seen.
func (c *Controller) remove(ctx context.Context, k *kinds.Kind, obj kinds.Object) error {
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	options := &metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	}
	request, err := c.request(k, obj.GetName(), options)
	if err == nil {
		_, err = c.config.Writer.Delete(ctx, request)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (c *Controller) request(k *kinds.Kind, name string, body any) (*write.Request, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return &write.Request{Kind: k, Name: name, ContentType: "application/json", Body: data, User: c.self, UserAgent: userAgent}, nil
}
