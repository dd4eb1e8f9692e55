package configfile

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// Validate says what is wrong with a configuration that is complete: file, flags and defaults together. It looks at what has an effect;
// rules and texts are upstream's (pkg/kubelet/apis/config/validation).
func Validate(c *kubeletv1beta1.KubeletConfiguration) error {
	var wrong []error
	refuse := func(format string, args ...any) {
		wrong = append(wrong, fmt.Errorf("invalid configuration: "+format, args...))
	}
	if c.MaxPods < 0 {
		refuse("maxPods (--max-pods) %v must not be a negative number", c.MaxPods)
	}
	if c.PodsPerCore < 0 {
		refuse("podsPerCore (--pods-per-core) %v must not be a negative number", c.PodsPerCore)
	}
	if c.NodeLeaseDurationSeconds <= 0 {
		refuse("nodeLeaseDurationSeconds must be greater than 0")
	}
	if p := *c.HealthzPort; p != 0 && utilvalidation.IsValidPortNum(int(p)) != nil {
		refuse("healthzPort (--healthz-port) %v must be between 1 and 65535, inclusive", p)
	}
	if utilvalidation.IsValidPortNum(int(c.Port)) != nil {
		refuse("port (--port) %v must be between 1 and 65535, inclusive", c.Port)
	}
	images(c, refuse)
	enforcement(c, refuse)
	for _, t := range c.RegisterWithTaints {
		if CheckTaint(t) != nil {
			wrong = append(wrong, fmt.Errorf("invalid taint: %v", t))
		}
		if t.TimeAdded != nil {
			refuse("taint.TimeAdded is not nil")
		}
	}
	switch c.Authorization.Mode {
	case kubeletv1beta1.KubeletAuthorizationModeWebhook, kubeletv1beta1.KubeletAuthorizationModeAlwaysAllow:
	default:
		wrong = append(wrong, fmt.Errorf("unknown authorization mode %q", c.Authorization.Mode))
	}
	if *c.ContainerLogMaxFiles <= 1 {
		refuse("containerLogMaxFiles must be greater than 1")
	}
	if !filepath.IsAbs(c.PodLogsDir) {
		refuse("pod logs path %q must be absolute path", c.PodLogsDir)
	}
	if filepath.Clean(c.PodLogsDir) != c.PodLogsDir {
		refuse("pod logs path %q must be normalized", c.PodLogsDir)
	}
	return utilerrors.NewAggregate(wrong)
}

func images(c *kubeletv1beta1.KubeletConfiguration, refuse func(string, ...any)) {
	high, low := *c.ImageGCHighThresholdPercent, *c.ImageGCLowThresholdPercent
	if high < 0 || high > 100 {
		refuse("imageGCHighThresholdPercent (--image-gc-high-threshold) %v must be between 0 and 100, inclusive", high)
	}
	if low < 0 || low > 100 {
		refuse("imageGCLowThresholdPercent (--image-gc-low-threshold) %v must be between 0 and 100, inclusive", low)
	}
	if low >= high {
		refuse("imageGCLowThresholdPercent (--image-gc-low-threshold) %v must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) %v", low, high)
	}
	least, most := c.ImageMinimumGCAge.Duration, c.ImageMaximumGCAge.Duration
	if least < 0 {
		refuse("imageMinimumGCAge %v must not be negative", least)
	}
	if most < 0 {
		refuse("imageMaximumGCAge %v must not be negative", most)
	}
	if most > 0 && most <= least {
		refuse("imageMaximumGCAge %v must be greater than imageMinimumGCAge %v", most, least)
	}
	if pulls := c.MaxParallelImagePulls; pulls != nil {
		if *pulls < 1 {
			refuse("maxParallelImagePulls %v must be a positive number", *pulls)
		}
		if *c.SerializeImagePulls && *pulls > 1 {
			refuse("maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is set to false")
		}
	}
}

// enforcement checks enforceNodeAllocatable. The cgroups of system and kubelet are nobody's here: upstream's rule that they need a cgroup is
// one that cannot be kept.
func enforcement(c *kubeletv1beta1.KubeletConfiguration, refuse func(string, ...any)) {
	seen := map[string]bool{}
	for _, what := range c.EnforceNodeAllocatable {
		switch {
		case seen[what]:
			refuse("duplicated enforcements %q in enforceNodeAllocatable (--enforce-node-allocatable)", what)
		case what == "none" && len(c.EnforceNodeAllocatable) > 1:
			refuse("enforceNodeAllocatable (--enforce-node-allocatable) may not contain additional enforcements when %q is specified", "none")
		case what != "none" && what != "pods":
			refuse("option %q specified for enforceNodeAllocatable (--enforce-node-allocatable). Valid options are %q or %q", what, "pods", "none")
		}
		seen[what] = true
	}
}

// errTaint says how a taint is written.
var errTaint = errors.New("a taint is KEY=VALUE:EFFECT or KEY:EFFECT with NoSchedule, PreferNoSchedule or NoExecute")

// CheckTaint says what is wrong with a taint.
func CheckTaint(t corev1.Taint) error {
	var wrong []string
	wrong = append(wrong, content.IsLabelKey(t.Key)...)
	if t.Value != "" {
		wrong = append(wrong, content.IsLabelValue(t.Value)...)
	}
	switch t.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		return fmt.Errorf("invalid taint effect: %v, unsupported taint effect", t.Effect)
	}
	if len(wrong) > 0 {
		return fmt.Errorf("invalid taint spec: %v, %s", t.ToString(), strings.Join(wrong, "; "))
	}
	return nil
}

// ParseTaint reads a taint: KEY=VALUE:EFFECT.
func ParseTaint(given string) (corev1.Taint, error) {
	name, effect, found := strings.Cut(given, ":")
	if !found {
		return corev1.Taint{}, fmt.Errorf("invalid taint spec: %v, %w", given, errTaint)
	}
	key, value, _ := strings.Cut(name, "=")
	t := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
	return t, CheckTaint(t)
}
