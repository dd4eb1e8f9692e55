package configfile

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

func TestValidate(t *testing.T) {
	usual := Defaults()
	if err := Validate(&usual); err != nil {
		t.Fatalf("upstream's defaults: %v", err)
	}
	for _, test := range []struct {
		change func(c *kubeletv1beta1.KubeletConfiguration)
		want   string
	}{
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.MaxPods = -1 }, "maxPods (--max-pods) -1 must not be a negative number"},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.PodsPerCore = -1 }, "podsPerCore (--pods-per-core) -1 must not be a negative number"},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.NodeLeaseDurationSeconds = 0 }, "nodeLeaseDurationSeconds must be greater than 0"},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.HealthzPort = new(int32(65536)) }, "healthzPort (--healthz-port) 65536 must be between 1 and 65535, inclusive"},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.Port = 0 }, "port (--port) 0 must be between 1 and 65535, inclusive"},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.ImageGCHighThresholdPercent = new(int32(101)) }, "imageGCHighThresholdPercent (--image-gc-high-threshold) 101 must be between 0 and 100, inclusive"},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.ImageGCLowThresholdPercent = new(int32(-1)) }, "imageGCLowThresholdPercent (--image-gc-low-threshold) -1 must be between 0 and 100, inclusive"},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.ImageGCLowThresholdPercent = new(int32(85)) }, "imageGCLowThresholdPercent (--image-gc-low-threshold) 85 must be less than imageGCHighThresholdPercent (--image-gc-high-threshold) 85"},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.ImageMaximumGCAge.Duration = 1 }, "imageMaximumGCAge 1ns must be greater than imageMinimumGCAge 2m0s"},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.MaxParallelImagePulls = new(int32(0)) }, "maxParallelImagePulls 0 must be a positive number"},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.MaxParallelImagePulls = new(int32(2)) }, "maxParallelImagePulls cannot be larger than 1 unless SerializeImagePulls (--serialize-image-pulls) is set to false"},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.ContainerLogMaxFiles = new(int32(1)) }, "containerLogMaxFiles must be greater than 1"},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.PodLogsDir = "logs" }, `pod logs path "logs" must be absolute path`},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.PodLogsDir = "/a/../b" }, `pod logs path "/a/../b" must be normalized`},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.EnforceNodeAllocatable = []string{"pods", "pods"} }, `duplicated enforcements "pods" in enforceNodeAllocatable`},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.EnforceNodeAllocatable = []string{"none", "pods"} }, `may not contain additional enforcements when "none" is specified`},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.EnforceNodeAllocatable = []string{"all"} }, `option "all" specified for enforceNodeAllocatable`},
		{func(c *kubeletv1beta1.KubeletConfiguration) { c.Authorization.Mode = "Nobody" }, `unknown authorization mode "Nobody"`},
		{func(c *kubeletv1beta1.KubeletConfiguration) {
			c.RegisterWithTaints = []corev1.Taint{{Key: "a", Effect: "Never"}}
		}, "invalid taint: "},
	} {
		c := Defaults()
		test.change(&c)
		if err := Validate(&c); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}

func TestParseTaint(t *testing.T) {
	for given, want := range map[string]corev1.Taint{
		"a=b:NoSchedule":           {Key: "a", Value: "b", Effect: corev1.TaintEffectNoSchedule},
		"a:NoExecute":              {Key: "a", Effect: corev1.TaintEffectNoExecute},
		"x.io/a=:PreferNoSchedule": {Key: "x.io/a", Effect: corev1.TaintEffectPreferNoSchedule},
	} {
		if got, err := ParseTaint(given); err != nil || got != want {
			t.Errorf("%s: %v, %v", given, got, err)
		}
	}
	for _, given := range []string{"", "a", "a=b", "a:Never", "=b:NoSchedule", "a b:NoSchedule", "a=b c:NoSchedule"} {
		if got, err := ParseTaint(given); err == nil {
			t.Errorf("%q is %v", given, got)
		}
	}
}
