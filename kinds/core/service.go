package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// Service is the row of services. Cluster IPs and node ports, which need other objects to choose, come from
// apiserver/serviceip between PrepareCreate or PrepareUpdate and validation.
func Service() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("Service"),
		Resource:   "services",
		Singular:   "service",
		ShortNames: []string{"svc"},
		Categories: []string{"all"},
		Namespaced: true,
		Path:       "services/specs",
		Type: &object.Type{
			APIVersion: "v1", Kind: "Service", Namespaced: true,
			New: func() runtime.Object { return &corev1.Service{} },
			Fields: []object.Field{
				{Label: "spec.clusterIP", Proto: []int32{2, 3}},
				{Label: "spec.type", Proto: []int32{2, 4}},
			},
		},
		UnknownField: kinds.UnknownField,
		New:          func() kinds.Object { return &corev1.Service{} },
		NewList:      func() runtime.Object { return &corev1.ServiceList{} },

		Default:       func(obj kinds.Object) { defaultService(obj.(*corev1.Service)) },
		PrepareCreate: func(obj kinds.Object) { prepareService(obj.(*corev1.Service)) },
		PrepareUpdate: func(obj, old kinds.Object) {
			prepareServiceUpdate(obj.(*corev1.Service), old.(*corev1.Service))
		},
		ValidateName: apivalidation.NameIsDNSLabel, // may begin with a digit since 1.37 (KEP-5311)
		Validate:     func(obj kinds.Object) field.ErrorList { return validateService(obj.(*corev1.Service), nil) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateServiceUpdate(obj.(*corev1.Service), old.(*corev1.Service))
		},
		Warnings: func(obj, _ kinds.Object) []string { return serviceWarnings(obj.(*corev1.Service)) },

		AllowCreateOnUpdate: true,
		UnconditionalUpdate: true,
		ReturnsDeleted:      true,

		Columns: serviceColumns(),
		Row:     func(obj kinds.Object, now time.Time) []any { return serviceRow(obj.(*corev1.Service), now) },

		Connections: map[string]kinds.Connection{
			"proxy": {Kind: "ServiceProxyOptions", Verbs: anyMethod},
		},
		Subresources: []kinds.Subresource{{
			Name:  "status",
			Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*corev1.Service).Spec = *old.(*corev1.Service).Spec.DeepCopy()
			},
			Validate: func(obj, old kinds.Object) field.ErrorList {
				return validateServiceStatus(obj.(*corev1.Service), old.(*corev1.Service))
			},
		}},
	}
}

func serviceColumns() []metav1.TableColumnDefinition {
	doc := corev1.ServiceSpec{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		column.Name(),
		column.Text("Type", doc["type"]),
		column.Text("Cluster-IP", doc["clusterIP"]),
		column.Text("External-IP", doc["externalIPs"]),
		column.Text("Port(s)", doc["ports"]),
		column.Age(),
		column.Wide(column.Text("Selector", doc["selector"])),
	}
}

func serviceRow(svc *corev1.Service, now time.Time) []any {
	clusterIP := column.None
	if len(svc.Spec.ClusterIPs) > 0 {
		clusterIP = svc.Spec.ClusterIPs[0]
	}
	return []any{
		svc.Name, string(svc.Spec.Type), clusterIP, externalIPs(svc), column.Or(servicePorts(svc.Spec.Ports), column.None),
		column.Since(svc.CreationTimestamp, now), labels.FormatLabels(svc.Spec.Selector),
	}
}

func servicePorts(ports []corev1.ServicePort) string {
	texts := make([]string, len(ports))
	for i, p := range ports {
		if p.NodePort > 0 {
			texts[i] = fmt.Sprintf("%d:%d/%s", p.Port, p.NodePort, p.Protocol)
		} else {
			texts[i] = fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		}
	}
	return strings.Join(texts, ",")
}

// externalIPs is where the service is reached from outside.
func externalIPs(svc *corev1.Service) string {
	switch svc.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return column.Or(strings.Join(svc.Spec.ExternalIPs, ","), column.None)
	case corev1.ServiceTypeLoadBalancer:
		ips := append(loadBalancerAddresses(&svc.Status.LoadBalancer), svc.Spec.ExternalIPs...)
		return column.Or(strings.Join(ips, ","), "<pending>")
	case corev1.ServiceTypeExternalName:
		return svc.Spec.ExternalName
	default:
		return column.Unknown
	}
}

// loadBalancerAddresses are the addresses or names of all ingress points, sorted, each once.
func loadBalancerAddresses(status *corev1.LoadBalancerStatus) []string {
	var list []string
	for _, ingress := range status.Ingress {
		if text := column.Or(ingress.IP, ingress.Hostname); text != "" {
			list = append(list, text)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}
