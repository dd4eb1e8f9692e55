package plugins

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"

	"vigil/apiserver/admission"
)

// DefaultIngressClass gives ingresses that name no class the one that is marked as the default.
type DefaultIngressClass struct {
	on
	Reader admission.Reader
}

// Name implements admission.Plugin.
func (DefaultIngressClass) Name() string { return "DefaultIngressClass" }

// Admit implements admission.Mutator.
func (p DefaultIngressClass) Admit(ctx context.Context, a *admission.Attributes) error {
	ingress, ok := a.Object.(*networkingv1.Ingress)
	if !ok || ingress.Spec.IngressClassName != nil {
		return nil
	}
	if _, ok := ingress.Annotations["kubernetes.io/ingress.class"]; ok {
		return nil // the way it was said before there were classes
	}
	list, err := p.Reader.List(ctx, ingressClasses, "")
	if err != nil {
		return admission.Forbidden(a, err)
	}
	if class := newestDefault(list, networkingv1.AnnotationIsDefaultIngressClass); class != nil {
		name := class.GetName()
		ingress.Spec.IngressClassName = &name
	}
	return nil
}
