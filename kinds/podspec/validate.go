package podspec

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// Texts that many rules share.
const (
	textNotPositive   = "must be greater than zero"
	textNotInteger    = "must be an integer"
	textOneVolumeType = "may not specify more than 1 volume type"
	textOneField      = "may not have more than one field specified at a time"
)

// Options says in what surroundings a spec is checked. The zero value is for a template that is being created.
type Options struct {
	// Pod is true for a pod and false for the template of one.
	Pod bool
	// Old is the stored spec when it is being updated, with its annotations. What later rules reject but Old has stays
	// acceptable.
	Old            *corev1.PodSpec
	OldAnnotations map[string]string
}

// ValidatePod checks a pod's spec and those of its annotations that speak of the spec, on create and on update.
// Its metadata has been checked before.
func ValidatePod(pod *corev1.Pod, opts Options) field.ErrorList {
	opts.Pod = true
	errs := validateAnnotations(pod.Annotations, &pod.Spec, field.NewPath("metadata", "annotations"), opts)
	path := field.NewPath("spec")
	errs = append(errs, Validate(&pod.Spec, &pod.ObjectMeta, path, opts)...)
	return append(errs, validateOnlyForPod(&pod.Spec, path)...)
}

// ValidateTemplate checks a pod template at path.
func ValidateTemplate(template *corev1.PodTemplateSpec, path *field.Path, opts Options) field.ErrorList {
	opts.Pod = false
	errs := ValidateTemplateMetadata(template, path, opts)
	errs = append(errs, Validate(&template.Spec, nil, path.Child("spec"), opts)...)
	errs = append(errs, ValidateProfileAnnotations(template.Annotations, &template.Spec, path.Child("spec"))...)
	if len(template.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

// ValidateTemplateMetadata checks the labels and annotations of a pod template at path, and little else of it: the part of
// ValidateTemplate that holds for stateful sets, too.
func ValidateTemplateMetadata(template *corev1.PodTemplateSpec, path *field.Path, opts Options) field.ErrorList {
	opts.Pod = false
	annotations := path.Child("annotations")
	errs := metav1validation.ValidateLabels(template.Labels, path.Child("labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(template.Annotations, annotations)...)
	return append(errs, validateAnnotations(template.Annotations, &template.Spec, annotations, opts)...)
}

// checker collects the errors of one spec. Its parts are spread over the files of this package.
type checker struct {
	spec     *corev1.PodSpec
	meta     *metav1.ObjectMeta // nil for templates
	opts     Options
	tolerate tolerance

	volumes   map[string]*corev1.VolumeSource // the valid ones, by name
	claims    sets.Set[string]                // names in spec.resourceClaims
	claimText string                          // see claimNames

	errs field.ErrorList
}

func (c *checker) add(errs ...*field.Error) { c.errs = append(c.errs, errs...) }

// Validate checks a pod spec after defaulting. The metadata is that of a pod; it is nil for templates, whose pods'
// names nobody knows yet. Paths are made for what the spec has, not for what it could have: making them is half of what
// checking allocates.
func Validate(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path, opts Options) field.ErrorList {
	c := &checker{spec: spec, meta: meta, opts: opts, tolerate: toleranceOf(opts)}
	if spec.TerminationGracePeriodSeconds == nil {
		c.add(field.Required(path.Child("terminationGracePeriodSeconds"), ""))
	}
	if len(spec.Volumes) > 0 {
		c.checkVolumes(path.Child("volumes"))
	}
	if len(spec.ResourceClaims) > 0 {
		c.checkResourceClaims(path.Child("resourceClaims"))
	}
	c.checkContainers(path.Child("containers"))
	if len(spec.InitContainers) > 0 {
		c.checkInitContainers(path.Child("initContainers"))
	}
	if len(spec.EphemeralContainers) > 0 {
		c.checkEphemeralContainers(path.Child("ephemeralContainers"))
	}
	if spec.Resources != nil {
		c.checkPodResources(path.Child("resources"))
	}
	c.checkPolicies(path)
	if spec.HostNetwork {
		c.checkHostNetworkPorts(path.Child("containers"))
	}
	if len(spec.NodeSelector) > 0 {
		c.add(metav1validation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	}
	c.checkPodSecurity(path)
	if spec.Affinity != nil {
		c.checkAffinity(path.Child("affinity"))
	}
	if spec.DNSConfig != nil || spec.DNSPolicy == corev1.DNSNone {
		c.checkDNS(path.Child("dnsConfig"))
	}
	c.checkGates(path)
	if len(spec.TopologySpreadConstraints) > 0 {
		c.checkTopologySpread(path.Child("topologySpreadConstraints"))
	}
	c.checkHostProcess(path)
	c.checkHostUsers(path)
	c.checkNames(path)
	c.checkHostnames(path)
	if spec.ActiveDeadlineSeconds != nil && (*spec.ActiveDeadlineSeconds < 1 || *spec.ActiveDeadlineSeconds > math.MaxInt32) {
		c.add(field.Invalid(path.Child("activeDeadlineSeconds"), *spec.ActiveDeadlineSeconds, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	if len(spec.Tolerations) > 0 {
		c.add(ValidateTolerations(spec.Tolerations, path.Child("tolerations"))...)
	}
	if spec.Overhead != nil {
		c.checkResourceList(&corev1.ResourceRequirements{Limits: spec.Overhead}, containerResourceName, path.Child("overhead"))
	}
	c.checkOS(path)
	return c.errs
}

// checkPolicies checks the fields that take one of a few words.
func (c *checker) checkPolicies(path *field.Path) {
	c.add(validate.OneOf(c.spec.RestartPolicy, path.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	c.add(validate.OneOf(c.spec.DNSPolicy, path.Child("dnsPolicy"),
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)...)
	if c.spec.PreemptionPolicy != nil {
		c.add(validate.OneOf(*c.spec.PreemptionPolicy, path.Child("preemptionPolicy"),
			corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
}

// checkNames checks references by name to objects of other kinds.
func (c *checker) checkNames(path *field.Path) {
	for _, ref := range []struct{ child, name string }{
		{"serviceAccountName", c.spec.ServiceAccountName},
		{"nodeName", c.spec.NodeName},
		{"priorityClassName", c.spec.PriorityClassName},
	} {
		if ref.name != "" {
			c.add(validate.Name(ref.name, path.Child(ref.child))...)
		}
	}
	if c.spec.RuntimeClassName != nil {
		c.add(validate.Name(*c.spec.RuntimeClassName, path.Child("runtimeClassName"))...)
	}
	if g := c.spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		c.add(validate.Name(*g.PodGroupName, path.Child("schedulingGroup", "podGroupName"))...)
	}
}

func (c *checker) checkGates(path *field.Path) {
	for i, gate := range c.spec.ReadinessGates {
		c.add(validate.QualifiedName(string(gate.ConditionType), path.Child("readinessGates").Index(i).Child("conditionType"))...)
	}
	seen := sets.New[string]()
	for i, gate := range c.spec.SchedulingGates {
		at := path.Child("schedulingGates").Index(i)
		c.add(validate.QualifiedName(gate.Name, at)...)
		if seen.Has(gate.Name) {
			c.add(field.Duplicate(at, gate.Name))
		}
		seen.Insert(gate.Name)
	}
}
