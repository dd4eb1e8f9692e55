// Package podsecurity is the admission plug-in PodSecurity: it holds pods to the Pod Security Standard that the labels
// pod-security.kubernetes.io/enforce, audit and warn of their namespace name, in the version that the labels ...-version name. Templates of
// pods (deployments, jobs ...) are not refused, only warned of and noted for the audit. The rules are those of
// k8s.io/pod-security-admission.
//
// Namespaces without such labels cost nothing but a look at their labels.
package podsecurity

import (
	"context"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	psa "k8s.io/pod-security-admission/admission"
	"k8s.io/pod-security-admission/admission/api/load"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/metrics"
	"k8s.io/pod-security-admission/policy"

	"vigil/apiserver/admission"
	"vigil/kinds"
)

const labelPrefix = "pod-security.kubernetes.io/"

// Plugin is PodSecurity.
type Plugin struct {
	reader   admission.Reader
	delegate *psa.Admission
}

// New makes the plug-in. reg may be nil.
func New(reader admission.Reader, reg prometheus.Registerer) (*Plugin, error) {
	config, err := load.LoadFromData(nil)
	if err != nil {
		return nil, fmt.Errorf("PodSecurity: defaults: %w", err)
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return nil, fmt.Errorf("PodSecurity: %w", err)
	}
	p := &Plugin{reader: reader}
	p.delegate = &psa.Admission{
		Configuration: config, Evaluator: evaluator, Metrics: newRecorder(reg), PodSpecExtractor: psa.DefaultPodSpecExtractor{},
		NamespaceGetter: p, PodLister: p,
	}
	if err := p.delegate.CompleteConfiguration(); err != nil {
		return nil, fmt.Errorf("PodSecurity: %w", err)
	}
	if err := p.delegate.ValidateConfiguration(); err != nil {
		return nil, fmt.Errorf("PodSecurity: %w", err)
	}
	return p, nil
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return "PodSecurity" }

var (
	pods       = schema.GroupResource{Resource: "pods"}
	namespaces = schema.GroupResource{Resource: "namespaces"}
)

// Handles implements admission.Plugin.
func (p *Plugin) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	if op == admission.Delete {
		return false
	}
	switch resource := k.GroupResource(); resource {
	case pods:
		return subresource == "" || subresource == "ephemeralcontainers" || subresource == "resize"
	case namespaces:
		return subresource == ""
	default:
		return subresource == "" && p.delegate.PodSpecExtractor.HasPodSpec(resource)
	}
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	concerned, err := p.concerned(ctx, a)
	if err != nil || !concerned {
		return err
	}
	result := p.delegate.Validate(ctx, &api.AttributesRecord{
		Name: a.Name, Namespace: a.Namespace, Kind: a.Kind.GVK, Resource: a.Kind.GVK.GroupVersion().WithResource(a.Kind.Resource),
		Subresource: a.Subresource, Operation: admissionv1.Operation(a.Operation), Object: a.Object, OldObject: a.Old, Username: a.User.Name,
	})
	for _, text := range result.Warnings {
		a.Warn(text)
	}
	for key, value := range result.AuditAnnotations {
		a.Annotate(labelPrefix+key, value)
	}
	if result.Allowed {
		return nil
	}
	refusal := apierrors.NewForbidden(a.Resource(), a.DisplayName(), fmt.Errorf("Not allowed by PodSecurity"))
	if r := result.Result; r != nil {
		if r.Message != "" {
			refusal.ErrStatus.Message = r.Message
		}
		if r.Reason != "" {
			refusal.ErrStatus.Reason = r.Reason
		}
		if r.Details != nil {
			refusal.ErrStatus.Details = r.Details
		}
		if r.Code != 0 {
			refusal.ErrStatus.Code = r.Code
		}
	}
	return refusal
}

// concerned says whether a namespace has labels that say anything about its pods; without them everything is allowed.
func (p *Plugin) concerned(ctx context.Context, a *admission.Attributes) (bool, error) {
	if namespace, ok := a.Object.(*corev1.Namespace); ok {
		old, _ := a.Old.(*corev1.Namespace)
		return labeled(namespace) || old != nil && labeled(old), nil
	}
	namespace, err := p.GetNamespace(ctx, a.Namespace)
	if err != nil {
		return false, apierrors.NewInternalError(fmt.Errorf("failed to lookup namespace %q: %w", a.Namespace, err))
	}
	return labeled(namespace), nil
}

func labeled(namespace *corev1.Namespace) bool {
	for key := range namespace.Labels {
		if strings.HasPrefix(key, labelPrefix) {
			return true
		}
	}
	return false
}

// GetNamespace implements psa.NamespaceGetter.
func (p *Plugin) GetNamespace(ctx context.Context, name string) (*corev1.Namespace, error) {
	obj, err := admission.Find(ctx, p.reader, namespaces, "", name)
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Namespace), nil
}

// ListPods implements psa.PodLister: what is there is checked when a namespace gets a stricter standard.
func (p *Plugin) ListPods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	list, err := p.reader.List(ctx, pods, namespace)
	if err != nil {
		return nil, err
	}
	typed := make([]*corev1.Pod, len(list))
	for i, obj := range list {
		typed[i] = obj.(*corev1.Pod)
	}
	return typed, nil
}

// recorder counts under upstream's names. Namespaces without labels are not counted.
type recorder struct {
	evaluations, exemptions, errors *prometheus.CounterVec
}

func newRecorder(reg prometheus.Registerer) *recorder {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	r := &recorder{
		evaluations: counter("pod_security_evaluations_total", "Pods and pod templates that were held to a Pod Security Standard.",
			"decision", "policy_level", "policy_version", "mode", "request_operation", "resource", "subresource"),
		exemptions: counter("pod_security_exemptions_total", "Requests that no Pod Security Standard was applied to.", "request_operation", "resource", "subresource"),
		errors:     counter("pod_security_errors_total", "Requests that could not be evaluated as their namespace asks.", "fatal", "request_operation", "resource", "subresource"),
	}
	if reg != nil {
		reg.MustRegister(r.evaluations, r.exemptions, r.errors)
	}
	return r
}

// resourceLabel is pod, namespace or controller, as upstream names them.
func resourceLabel(attrs api.Attributes) string {
	switch attrs.GetResource().GroupResource() {
	case pods:
		return "pod"
	case namespaces:
		return "namespace"
	}
	return "controller"
}

func operationLabel(attrs api.Attributes) string {
	return strings.ToLower(string(attrs.GetOperation()))
}

// RecordEvaluation implements metrics.Recorder. A version that was not released is told as future: there are endlessly many.
func (r *recorder) RecordEvaluation(decision metrics.Decision, standard api.LevelVersion, mode metrics.Mode, attrs api.Attributes) {
	version := standard.Version.String()
	if latest := api.GetAPIVersion(); standard.Level == api.LevelPrivileged || standard.Version.Latest() {
		version = "latest"
	} else if latest.Older(standard.Version) {
		version = "future"
	}
	r.evaluations.WithLabelValues(string(decision), string(standard.Level), version, string(mode), operationLabel(attrs), resourceLabel(attrs), attrs.GetSubresource()).Inc()
}

// RecordExemption implements metrics.Recorder.
func (r *recorder) RecordExemption(attrs api.Attributes) {
	r.exemptions.WithLabelValues(operationLabel(attrs), resourceLabel(attrs), attrs.GetSubresource()).Inc()
}

// RecordError implements metrics.Recorder.
func (r *recorder) RecordError(fatal bool, attrs api.Attributes) {
	r.errors.WithLabelValues(fmt.Sprint(fatal), operationLabel(attrs), resourceLabel(attrs), attrs.GetSubresource()).Inc()
}
