package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// WarningsForPod says what in a pod is allowed and yet probably not meant.
func WarningsForPod(pod *corev1.Pod) []string {
	return warningsFor(pod.Annotations, &pod.Spec, nil)
}

// WarningsForTemplate is WarningsForPod for the template at path.
func WarningsForTemplate(template *corev1.PodTemplateSpec, path *field.Path) []string {
	return warningsFor(template.Annotations, &template.Spec, path)
}

// warner collects the warnings of one spec.
type warner struct {
	annotations map[string]string
	spec        *corev1.PodSpec
	path        *field.Path // of the pod or template; nil for a pod
	texts       []string
}

func (w *warner) warn(path *field.Path, format string, args ...any) {
	w.texts = append(w.texts, path.String()+": "+fmt.Sprintf(format, args...))
}

func warningsFor(annotations map[string]string, spec *corev1.PodSpec, path *field.Path) []string {
	w := &warner{annotations: annotations, spec: spec, path: path}
	at := path.Child("spec")
	w.nodeLabels(at)
	w.nullSelectors(at)
	w.deprecatedAnnotations()
	w.volumes(at.Child("volumes"))
	w.tokenPaths(at.Child("volumes"))
	w.duplicates(at)
	w.fractions(spec.Overhead, at.Child("overhead"))
	w.addresses(at)
	VisitContainers(spec, at, func(c *corev1.Container, path *field.Path) {
		w.fractions(c.Resources.Limits, path.Child("resources", "limits"))
		w.fractions(c.Resources.Requests, path.Child("resources", "requests"))
		w.hiddenEnv(c.Env, path.Child("env"))
	})
	w.ports(at)
	if negative(spec.TerminationGracePeriodSeconds) {
		w.warn(at.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	return w.texts
}

// deprecatedNodeLabels have been replaced by labels with other names.
var deprecatedNodeLabels = map[string]string{
	"beta.kubernetes.io/arch":           `deprecated since v1.14; use "kubernetes.io/arch" instead`,
	"beta.kubernetes.io/os":             `deprecated since v1.14; use "kubernetes.io/os" instead`,
	corev1.LabelFailureDomainBetaRegion: `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	corev1.LabelFailureDomainBetaZone:   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	corev1.LabelInstanceType:            `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
}

func (w *warner) nodeLabels(at *field.Path) {
	for _, key := range slices.Sorted(maps.Keys(w.spec.NodeSelector)) {
		if text, ok := deprecatedNodeLabels[key]; ok {
			w.warn(at.Child("nodeSelector").Key(key), "%s", text)
		}
	}
	if a := w.spec.Affinity; a != nil && a.NodeAffinity != nil {
		at := at.Child("affinity", "nodeAffinity")
		for i := range nodeTerms(a.NodeAffinity) {
			w.nodeTerm(&nodeTerms(a.NodeAffinity)[i], at.Child(requiredTerms, "nodeSelectorTerms").Index(i))
		}
		for i := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			w.nodeTerm(&a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution[i].Preference, at.Child(preferredTerms).Index(i).Child("preference"))
		}
	}
	for i, s := range w.spec.TopologySpreadConstraints {
		if text, ok := deprecatedNodeLabels[s.TopologyKey]; ok {
			w.warn(at.Child("topologySpreadConstraints").Index(i).Child("topologyKey"), "%s is %s", s.TopologyKey, text)
		}
	}
}

func (w *warner) nodeTerm(term *corev1.NodeSelectorTerm, at *field.Path) {
	for i, r := range term.MatchExpressions {
		at := at.Child("matchExpressions").Index(i)
		if text, ok := deprecatedNodeLabels[r.Key]; ok {
			w.warn(at.Child("key"), "%s is %s", r.Key, text)
		}
		for j, value := range r.Values {
			if texts := validation.IsValidLabelValue(value); len(texts) > 0 {
				w.warn(at.Child("values").Index(j), "%s is invalid, %s", value, strings.Join(texts, "; "))
			}
		}
	}
}

// nullSelectors warns of selectors left out, which match nothing, where an empty one was meant, which matches all.
func (w *warner) nullSelectors(at *field.Path) {
	const text = "a null labelSelector results in matching no pod"
	for i, s := range w.spec.TopologySpreadConstraints {
		if s.LabelSelector == nil {
			w.warn(at.Child("topologySpreadConstraints").Index(i).Child("labelSelector"), text)
		}
	}
	terms := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, at *field.Path) {
		for i, t := range required {
			if t.LabelSelector == nil {
				w.warn(at.Child(requiredTerms).Index(i).Child("labelSelector"), text)
			}
		}
		for i, t := range preferred {
			if t.PodAffinityTerm.LabelSelector == nil {
				w.warn(at.Child(preferredTerms).Index(i).Child("podAffinityTerm", "labelSelector"), text)
			}
		}
	}
	if a := w.spec.Affinity; a != nil {
		if p := a.PodAffinity; p != nil {
			terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("affinity", "podAffinity"))
		}
		if p := a.PodAntiAffinity; p != nil {
			terms(p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("affinity", "podAntiAffinity"))
		}
	}
}

func (w *warner) deprecatedAnnotations() {
	const useSeccomp = `non-functional in v1.27+; use the "seccompProfile" field instead`
	at := w.path.Child("metadata", "annotations")
	has := func(key string) bool { _, ok := w.annotations[key]; return ok }
	for _, a := range []struct{ key, text string }{
		{"scheduler.alpha.kubernetes.io/critical-pod", `non-functional in v1.16+; use the "priorityClassName" field instead`},
		{"security.alpha.kubernetes.io/sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
		{"security.alpha.kubernetes.io/unsafe-sysctls", `non-functional in v1.11+; use the "sysctls" field instead`},
	} {
		if has(a.key) {
			w.warn(at.Key(a.key), "%s", a.text)
		}
	}
	pod := w.spec.SecurityContext
	if has(corev1.SeccompPodAnnotationKey) && (pod == nil || pod.SeccompProfile == nil) {
		w.warn(at.Key(corev1.SeccompPodAnnotationKey), useSeccomp)
	}
	VisitContainers(w.spec, nil, func(c *corev1.Container, _ *field.Path) {
		if key := corev1.SeccompContainerAnnotationKeyPrefix + c.Name; has(key) && (c.SecurityContext == nil || c.SecurityContext.SeccompProfile == nil) {
			w.warn(at.Key(key), useSeccomp)
		}
		byField := pod != nil && pod.AppArmorProfile != nil || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil
		if key := corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + c.Name; has(key) && !byField {
			w.warn(at.Key(key), `deprecated since v1.30; use the "appArmorProfile" field instead`)
		}
	})
}

// duplicates warns of lists that name the same thing twice.
func (w *warner) duplicates(at *field.Path) {
	ips := sets.New[string]()
	for i, alias := range w.spec.HostAliases {
		if ips.Has(alias.IP) {
			w.warn(at.Child("hostAliases").Index(i).Child("ip"), "duplicate ip %q", alias.IP)
		}
		ips.Insert(alias.IP)
	}
	secrets := sets.New[string]()
	for i, secret := range w.spec.ImagePullSecrets {
		if secrets.Has(secret.Name) {
			w.warn(at.Child("imagePullSecrets").Index(i).Child("name"), "duplicate name %q", secret.Name)
		}
		if secret.Name == "" {
			w.warn(at.Child("imagePullSecrets").Index(i).Child("name"), "invalid empty name %q", secret.Name)
		}
		secrets.Insert(secret.Name)
	}
}

// fractions warns of parts of bytes.
func (w *warner) fractions(list corev1.ResourceList, at *field.Path) {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if value, ok := list[name]; ok && value.MilliValue()%1000 != 0 {
			w.warn(at.Key(string(name)), "fractional byte value %q is invalid, must be an integer", value.String())
		}
	}
}

func (w *warner) addresses(at *field.Path) {
	if w.spec.DNSConfig != nil {
		for i, ip := range w.spec.DNSConfig.Nameservers {
			w.texts = append(w.texts, validation.GetWarningsForIP(at.Child("dnsConfig", "nameservers").Index(i), ip)...)
		}
	}
	for i, alias := range w.spec.HostAliases {
		w.texts = append(w.texts, validation.GetWarningsForIP(at.Child("hostAliases").Index(i).Child("ip"), alias.IP)...)
	}
}

// hiddenEnv warns of a variable that is given twice, unless the second builds on the first ("$(X) and more").
func (w *warner) hiddenEnv(env []corev1.EnvVar, at *field.Path) {
	seen := sets.New[string]()
	for i, v := range env {
		ref := "$(" + v.Name + ")"
		if seen.Has(v.Name) && (v.ValueFrom != nil || v.Value == ref || !strings.Contains(v.Value, ref)) {
			w.warn(at.Index(i), "hides previous definition of %q, which may be dropped when using apply", v.Name)
		}
		seen.Insert(v.Name)
	}
}
