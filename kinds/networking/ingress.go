package networking

import (
	"fmt"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// ClassAnnotation named the class of an ingress before spec.ingressClassName did.
const ClassAnnotation = "kubernetes.io/ingress.class"

// Ingress is the row of ingresses.
func Ingress() *kinds.Kind {
	return &kinds.Kind{
		GVK:        networkingv1.SchemeGroupVersion.WithKind("Ingress"),
		Resource:   "ingresses",
		Singular:   "ingress",
		ShortNames: []string{"ing"},
		Namespaced: true,
		Path:       "ingress", // as in group extensions, from which ingresses came
		Type: &object.Type{
			APIVersion: "networking.k8s.io/v1", Kind: "Ingress", Namespaced: true,
			New: func() runtime.Object { return &networkingv1.Ingress{} },
		},
		New:     func() kinds.Object { return &networkingv1.Ingress{} },
		NewList: func() runtime.Object { return &networkingv1.IngressList{} },

		PrepareCreate: func(obj kinds.Object) { obj.(*networkingv1.Ingress).Status = networkingv1.IngressStatus{} },
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*networkingv1.Ingress).Status = *old.(*networkingv1.Ingress).Status.DeepCopy()
		},
		HasGeneration: true,
		Validate:      func(obj kinds.Object) field.ErrorList { return validateIngressCreate(obj.(*networkingv1.Ingress)) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateIngressUpdate(obj.(*networkingv1.Ingress), old.(*networkingv1.Ingress))
		},
		Warnings:            ingressWarnings,
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Class", "The name of the IngressClass resource that should be used for additional configuration"),
			column.Text("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
			column.Text("Address", "Address is a list containing ingress points for the load-balancer"),
			column.Text("Ports", "Ports of TLS configurations that open"),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			ingress := obj.(*networkingv1.Ingress)
			class, ports := column.None, "80"
			if ingress.Spec.IngressClassName != nil {
				class = *ingress.Spec.IngressClassName
			}
			if len(ingress.Spec.TLS) > 0 {
				ports = "80, 443"
			}
			return []any{
				ingress.Name, class, ingressHosts(ingress.Spec.Rules), ingressAddresses(ingress.Status.LoadBalancer), ports,
				column.Since(ingress.CreationTimestamp, now),
			}
		},

		Subresources: []kinds.Subresource{{
			Name:  "status",
			Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*networkingv1.Ingress).Spec = *old.(*networkingv1.Ingress).Spec.DeepCopy()
			},
			Validate: func(obj, old kinds.Object) field.ErrorList {
				return validateIngressStatus(&obj.(*networkingv1.Ingress).Status.LoadBalancer, &old.(*networkingv1.Ingress).Status.LoadBalancer)
			},
		}},
	}
}

// ingressWarnings speaks of the old annotation where it comes in alone.
func ingressWarnings(obj, old kinds.Object) []string {
	ingress := obj.(*networkingv1.Ingress)
	if _, found := ingress.Annotations[ClassAnnotation]; !found || old != nil || ingress.Spec.IngressClassName != nil {
		return nil
	}
	return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", ClassAnnotation)}
}

// ingressHosts shows the first three hosts, "*" when there is none.
func ingressHosts(rules []networkingv1.IngressRule) string {
	const most = 3
	var hosts []string
	for _, rule := range rules {
		if rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	if len(hosts) > most {
		return fmt.Sprintf("%s + %d more...", strings.Join(hosts[:most], ","), len(hosts)-most)
	}
	return column.Or(strings.Join(hosts, ","), "*")
}

// ingressAddresses lists each address or else host name of a load balancer once, in order.
func ingressAddresses(status networkingv1.IngressLoadBalancerStatus) string {
	all := sets.New[string]()
	for _, point := range status.Ingress {
		if text := column.Or(point.IP, point.Hostname); text != "" {
			all.Insert(text)
		}
	}
	return strings.Join(sets.List(all), ",")
}
