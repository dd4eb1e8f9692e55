package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// checkContainers checks the main containers: at least one, each with a name of its own, no two on one host port.
func (c *checker) checkContainers(path *field.Path) {
	if len(c.spec.Containers) == 0 {
		c.add(field.Required(path, ""))
		return
	}
	names := sets.New[string]()
	for i := range c.spec.Containers {
		container, at := &c.spec.Containers[i], path.Index(i)
		c.checkContainer(container, at)
		if names.Has(container.Name) {
			c.add(field.Duplicate(at.Child("name"), container.Name))
		}
		names.Insert(container.Name)
		c.checkHooks(container, at)
		c.checkRestartRules(container, at)
	}
	c.checkHostPortConflicts(c.spec.Containers, path)
}

// checkContainer checks what main, init and ephemeral containers have in common.
func (c *checker) checkContainer(container *corev1.Container, path *field.Path) {
	if container.Name == "" {
		c.add(field.Required(path.Child("name"), ""))
	} else {
		c.add(validate.Each(container.Name, path.Child("name"), validation.IsDNS1123Label)...)
	}
	if container.Image == "" {
		c.add(field.Required(path.Child("image"), ""))
	}
	c.add(validate.OneOf(container.TerminationMessagePolicy, path.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	if len(container.Ports) > 0 {
		c.checkPorts(container.Ports, path.Child("ports"))
	}
	if len(container.Env) > 0 {
		c.checkEnv(container.Env, path.Child("env"))
	}
	if len(container.EnvFrom) > 0 {
		c.checkEnvFrom(container.EnvFrom, path.Child("envFrom"))
	}
	if len(container.VolumeMounts) > 0 {
		c.checkMounts(container, path.Child("volumeMounts"))
	}
	if len(container.VolumeDevices) > 0 {
		c.checkDevices(container, path.Child("volumeDevices"))
	}
	c.add(validate.OneOf(container.ImagePullPolicy, path.Child("imagePullPolicy"),
		corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	if r := &container.Resources; len(r.Limits) > 0 || len(r.Requests) > 0 || len(r.Claims) > 0 {
		c.checkResources(r, containerResourceName, path.Child("resources"))
	}
	if len(container.ResizePolicy) > 0 {
		c.checkResizePolicy(container.ResizePolicy, path.Child("resizePolicy"))
	}
	if container.SecurityContext != nil {
		c.checkContainerSecurity(container.SecurityContext, path.Child("securityContext"))
	}
}

// checkHooks checks what a container has that runs as long as the pod does: lifecycle handlers and probes.
func (c *checker) checkHooks(container *corev1.Container, path *field.Path) {
	if container.Lifecycle != nil {
		c.checkLifecycle(container.Lifecycle, path.Child("lifecycle"))
	}
	if container.LivenessProbe != nil {
		c.checkLivenessProbe(container.LivenessProbe, path.Child("livenessProbe"))
	}
	if container.ReadinessProbe != nil {
		c.checkReadinessProbe(container.ReadinessProbe, path.Child("readinessProbe"))
	}
	if container.StartupProbe != nil {
		c.checkStartupProbe(container.StartupProbe, path.Child("startupProbe"))
	}
}

// checkInitContainers checks the init containers. Only those that keep running (restartPolicy Always) have probes and
// lifecycle handlers. They run one after the other, so their host ports may be the same.
func (c *checker) checkInitContainers(path *field.Path) {
	names := sets.New[string]()
	for _, container := range c.spec.Containers {
		names.Insert(container.Name)
	}
	for i := range c.spec.InitContainers {
		container, at := &c.spec.InitContainers[i], path.Index(i)
		c.checkContainer(container, at)
		if names.Has(container.Name) {
			c.add(field.Duplicate(at.Child("name"), container.Name))
		} else if container.Name != "" {
			names.Insert(container.Name)
		}
		c.checkRestartRules(container, at)
		c.checkHostPortConflicts(c.spec.InitContainers[i:i+1], path)
		if IsSidecar(container) {
			c.checkHooks(container, at)
		} else {
			c.forbidHooks(container, at)
		}
	}
}

func (c *checker) forbidHooks(container *corev1.Container, path *field.Path) {
	const text = "may not be set for init containers without restartPolicy=Always"
	for _, hook := range []struct {
		name string
		set  bool
	}{
		{"lifecycle", container.Lifecycle != nil},
		{"livenessProbe", container.LivenessProbe != nil},
		{"readinessProbe", container.ReadinessProbe != nil},
		{"startupProbe", container.StartupProbe != nil},
	} {
		if hook.set {
			c.add(field.Forbidden(path.Child(hook.name), text))
		}
	}
}

// IsSidecar says whether an init container keeps running beside the main ones.
func IsSidecar(container *corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

const maxRestartRules, maxRestartExitCodes = 20, 255

// checkRestartRules checks a container's own restart policy and its rules by exit code (KEP-5307).
func (c *checker) checkRestartRules(container *corev1.Container, path *field.Path) {
	if container.RestartPolicy != nil {
		c.add(notSupportedIn(path.Child("restartPolicy"), *container.RestartPolicy,
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)...)
	}
	rules := container.RestartPolicyRules
	if len(rules) == 0 {
		return
	}
	at := path.Child("restartPolicyRules")
	if container.RestartPolicy == nil {
		c.add(field.Required(path.Child("restartPolicy"), "must specify restartPolicy when restart rules are used"))
	}
	if len(rules) > maxRestartRules {
		c.add(field.TooMany(at, len(rules), maxRestartRules))
	}
	for i, rule := range rules {
		at := at.Index(i)
		c.add(validate.OneOf(rule.Action, at.Child("action"),
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)...)
		if rule.ExitCodes == nil {
			c.add(field.Required(at.Child("exitCodes"), "must be specified"))
			continue
		}
		at = at.Child("exitCodes")
		c.add(validate.OneOf(rule.ExitCodes.Operator, at.Child("operator"),
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)...)
		if n := len(rule.ExitCodes.Values); n == 0 {
			c.add(field.Required(at.Child("values"), "must specify at least one value"))
		} else if n > maxRestartExitCodes {
			c.add(field.TooMany(at.Child("values"), n, maxRestartExitCodes))
		}
	}
}

var resizeRestartPolicies = []corev1.ResourceResizeRestartPolicy{corev1.NotRequired, corev1.RestartContainer}

func (c *checker) checkResizePolicy(policies []corev1.ContainerResizePolicy, path *field.Path) {
	seen := sets.New[corev1.ResourceName]()
	for i, p := range policies {
		if seen.Has(p.ResourceName) {
			c.add(field.Duplicate(path.Index(i), p.ResourceName))
		}
		seen.Insert(p.ResourceName)
		c.add(validate.OneOf(p.ResourceName, path, corev1.ResourceCPU, corev1.ResourceMemory)...)
		c.add(validate.OneOf(p.RestartPolicy, path, resizeRestartPolicies...)...)
		if c.spec.RestartPolicy == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			c.add(field.Invalid(path, p.RestartPolicy, "must be 'NotRequired' when `restartPolicy` is 'Never'"))
		}
	}
}

// validateOnlyForPod has the rules that templates, which came before them, need not keep.
func validateOnlyForPod(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	c := &checker{spec: spec}
	if spec.ServiceAccountName == "" {
		for i, v := range spec.Volumes {
			if v.Projected == nil {
				continue
			}
			for j, source := range v.Projected.Sources {
				if source.ServiceAccountToken != nil {
					c.add(field.Forbidden(path.Child("volumes").Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"),
						"must not be specified when serviceAccountName is not set"))
				}
			}
		}
	}
	VisitContainers(spec, path, func(container *corev1.Container, at *field.Path) {
		c.checkImageSpace(container.Image, at.Child("image"))
	})
	return c.errs
}

func (c *checker) checkImageSpace(image string, path *field.Path) {
	if strings.TrimSpace(image) != image {
		c.add(field.Invalid(path, image, "must not have leading or trailing whitespace"))
	}
}

// VisitContainers calls visit for init, main and ephemeral containers in this order. An ephemeral container is shown
// as a copy.
func VisitContainers(spec *corev1.PodSpec, path *field.Path, visit func(*corev1.Container, *field.Path)) {
	for i := range spec.InitContainers {
		visit(&spec.InitContainers[i], path.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		visit(&spec.Containers[i], path.Child("containers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		container := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		visit(&container, path.Child("ephemeralContainers").Index(i))
	}
}

// notSupportedIn is NotSupported for a value that is none of supported; the empty value is no exception.
func notSupportedIn[T ~string](path *field.Path, value T, supported ...T) field.ErrorList {
	for _, s := range supported {
		if value == s {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(path, value, supported)}
}
