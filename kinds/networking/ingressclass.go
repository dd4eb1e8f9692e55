package networking

import (
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

const maxControllerBytes = 250

// IngressClass is the row of ingress classes.
func IngressClass() *kinds.Kind {
	doc := networkingv1.IngressClassSpec{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:      networkingv1.SchemeGroupVersion.WithKind("IngressClass"),
		Resource: "ingressclasses",
		Singular: "ingressclass",
		Path:     "ingressclasses",
		Type: &object.Type{
			APIVersion: "networking.k8s.io/v1", Kind: "IngressClass",
			New: func() runtime.Object { return &networkingv1.IngressClass{} },
		},
		New:     func() kinds.Object { return &networkingv1.IngressClass{} },
		NewList: func() runtime.Object { return &networkingv1.IngressClassList{} },

		Default: func(obj kinds.Object) {
			if p := obj.(*networkingv1.IngressClass).Spec.Parameters; p != nil && p.Scope == nil {
				scope := networkingv1.IngressClassParametersReferenceScopeCluster
				p.Scope = &scope
			}
		},
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateIngressClass(&obj.(*networkingv1.IngressClass).Spec, field.NewPath("spec"))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			path := field.NewPath("spec")
			class, was := obj.(*networkingv1.IngressClass), old.(*networkingv1.IngressClass)
			return append(validate.Immutable(class.Spec.Controller, was.Spec.Controller, path.Child("controller")),
				validateIngressClass(&class.Spec, path)...)
		},
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Controller", "Controller that is responsible for handling this class"),
			column.Text("Parameters", doc["parameters"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			class := obj.(*networkingv1.IngressClass)
			parameters := column.None
			if p := class.Spec.Parameters; p != nil {
				parameters = p.Kind
				if p.APIGroup != nil {
					parameters += "." + *p.APIGroup
				}
				parameters += "/" + p.Name
			}
			return []any{class.Name, class.Spec.Controller, parameters, column.Since(class.CreationTimestamp, now)}
		},
	}
}

func validateIngressClass(spec *networkingv1.IngressClassSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child("controller")
	if spec.Controller == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		if len(spec.Controller) > maxControllerBytes {
			errs = append(errs, field.TooLong(at, "", maxControllerBytes))
		}
		errs = append(errs, validation.IsDomainPrefixedPath(at, spec.Controller)...)
	}
	if spec.Parameters != nil {
		errs = append(errs, validateClassParameters(spec.Parameters, path.Child("parameters"))...)
	}
	return errs
}

func validateClassParameters(p *networkingv1.IngressClassParametersReference, path *field.Path) field.ErrorList {
	errs := validateLocalReference(p.APIGroup, p.Kind, p.Name, path)
	const cluster, namespace = networkingv1.IngressClassParametersReferenceScopeCluster, networkingv1.IngressClassParametersReferenceScopeNamespace
	at := path.Child("namespace")
	switch {
	case p.Scope == nil:
		errs = append(errs, field.Required(path.Child("scope"), ""))
	case *p.Scope == cluster:
		if p.Namespace != nil {
			errs = append(errs, field.Forbidden(at, "`parameters.scope` is set to 'Cluster'"))
		}
	case *p.Scope == namespace:
		if p.Namespace == nil {
			errs = append(errs, field.Required(at, "`parameters.scope` is set to 'Namespace'"))
		} else {
			for _, text := range apivalidation.ValidateNamespaceName(*p.Namespace, false) {
				errs = append(errs, field.Invalid(at, *p.Namespace, text))
			}
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("scope"), *p.Scope, []string{cluster, namespace}))
	}
	return errs
}

// validateLocalReference checks a reference to an object of any kind.
func validateLocalReference(group *string, kind, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if group != nil {
		errs = append(errs, validate.Each(*group, path.Child("apiGroup"), validation.IsDNS1123Subdomain)...)
	}
	errs = append(errs, requiredSegment(kind, path.Child("kind"))...)
	return append(errs, requiredSegment(name, path.Child("name"))...)
}
