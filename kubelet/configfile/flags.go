package configfile

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"vigil/kubelet/eviction"
)

// Flag is a flag of `vigil kubelet` that says what a field of a file says.
type Flag struct{ Name, Value, Field string }

// row pairs a field with a flag. text is the flag's value, "" with false when the file says nothing.
type row struct {
	field, flag string
	text        func(c *kubeletv1beta1.KubeletConfiguration) (string, bool)
}

type config = kubeletv1beta1.KubeletConfiguration

// table has all fields that have an effect. Flags have upstream's names where upstream has a flag.
var table = []row{
	{"enableServer", "enable-server", func(c *config) (string, bool) { return boolean(c.EnableServer) }},
	{"staticPodPath", "pod-manifest-path", func(c *config) (string, bool) { return text(c.StaticPodPath) }},
	{"podLogsDir", "pod-log-dir", func(c *config) (string, bool) { return text(c.PodLogsDir) }},
	{"address", "address", func(c *config) (string, bool) { return text(c.Address) }},
	{"port", "port", func(c *config) (string, bool) { return number(c.Port) }},
	{"tlsCertFile", "tls-cert-file", func(c *config) (string, bool) { return text(c.TLSCertFile) }},
	{"tlsPrivateKeyFile", "tls-private-key-file", func(c *config) (string, bool) { return text(c.TLSPrivateKeyFile) }},
	{"tlsCipherSuites", "tls-cipher-suites", func(c *config) (string, bool) { return list(c.TLSCipherSuites) }},
	{"tlsMinVersion", "tls-min-version", func(c *config) (string, bool) { return text(c.TLSMinVersion) }},
	{"rotateCertificates", "rotate-certificates", func(c *config) (string, bool) { return yes(c.RotateCertificates) }},
	{"serverTLSBootstrap", "rotate-server-certificates", func(c *config) (string, bool) { return yes(c.ServerTLSBootstrap) }},
	{"authentication.x509.clientCAFile", "client-ca-file", func(c *config) (string, bool) { return text(c.Authentication.X509.ClientCAFile) }},
	{"authentication.webhook.enabled", "authentication-token-webhook", func(c *config) (string, bool) { return boolean(c.Authentication.Webhook.Enabled) }},
	{"authentication.anonymous.enabled", "anonymous-auth", func(c *config) (string, bool) { return boolean(c.Authentication.Anonymous.Enabled) }},
	{"authorization.mode", "authorization-mode", func(c *config) (string, bool) { return text(string(c.Authorization.Mode)) }},
	{"healthzPort", "healthz-port", func(c *config) (string, bool) { return numberPtr(c.HealthzPort) }},
	{"healthzBindAddress", "healthz-bind-address", func(c *config) (string, bool) { return text(c.HealthzBindAddress) }},
	{"clusterDomain", "cluster-domain", func(c *config) (string, bool) { return text(c.ClusterDomain) }},
	{"clusterDNS", "cluster-dns", func(c *config) (string, bool) { return list(c.ClusterDNS) }},
	{"resolvConf", "resolv-conf", func(c *config) (string, bool) { return textPtr(c.ResolverConfig) }},
	{"nodeStatusUpdateFrequency", "node-status-update-frequency", func(c *config) (string, bool) { return duration(c.NodeStatusUpdateFrequency) }},
	{"nodeStatusReportFrequency", "node-status-report-frequency", func(c *config) (string, bool) {
		if c.NodeStatusReportFrequency.Duration == 0 { // who looks more often reports more often
			return duration(c.NodeStatusUpdateFrequency)
		}
		return duration(c.NodeStatusReportFrequency)
	}},
	{"nodeLeaseDurationSeconds", "node-lease-duration-seconds", func(c *config) (string, bool) { return number(c.NodeLeaseDurationSeconds) }},
	{"imageMinimumGCAge", "minimum-image-ttl-duration", func(c *config) (string, bool) { return duration(c.ImageMinimumGCAge) }},
	{"imageMaximumGCAge", "image-maximum-gc-age", func(c *config) (string, bool) { return duration(c.ImageMaximumGCAge) }},
	{"imageGCHighThresholdPercent", "image-gc-high-threshold", func(c *config) (string, bool) { return numberPtr(c.ImageGCHighThresholdPercent) }},
	{"imageGCLowThresholdPercent", "image-gc-low-threshold", func(c *config) (string, bool) { return numberPtr(c.ImageGCLowThresholdPercent) }},
	{"volumeStatsAggPeriod", "volume-stats-agg-period", func(c *config) (string, bool) { return duration(c.VolumeStatsAggPeriod) }},
	{"cgroupRoot", "cgroup-root", func(c *config) (string, bool) { return text(c.CgroupRoot) }},
	{"runtimeRequestTimeout", "runtime-request-timeout", func(c *config) (string, bool) { return duration(c.RuntimeRequestTimeout) }},
	{"maxPods", "max-pods", func(c *config) (string, bool) { return number(c.MaxPods) }},
	{"podsPerCore", "pods-per-core", func(c *config) (string, bool) { return number(c.PodsPerCore) }},
	{"podPidsLimit", "pod-max-pids", func(c *config) (string, bool) { return numberPtr(c.PodPidsLimit) }},
	{"cpuCFSQuota", "cpu-cfs-quota", func(c *config) (string, bool) { return boolean(c.CPUCFSQuota) }},
	{"serializeImagePulls", "serialize-image-pulls", func(c *config) (string, bool) { return boolean(c.SerializeImagePulls) }},
	{"maxParallelImagePulls", "max-parallel-image-pulls", func(c *config) (string, bool) { return numberPtr(c.MaxParallelImagePulls) }},
	{"evictionHard", "eviction-hard", hard},
	{"evictionSoft", "eviction-soft", func(c *config) (string, bool) { return pairs(c.EvictionSoft, "<") }},
	{"evictionSoftGracePeriod", "eviction-soft-grace-period", func(c *config) (string, bool) { return pairs(c.EvictionSoftGracePeriod, "=") }},
	{"evictionMinimumReclaim", "eviction-minimum-reclaim", func(c *config) (string, bool) { return pairs(c.EvictionMinimumReclaim, "=") }},
	{"evictionPressureTransitionPeriod", "eviction-pressure-transition-period", func(c *config) (string, bool) { return duration(c.EvictionPressureTransitionPeriod) }},
	{"evictionMaxPodGracePeriod", "eviction-max-pod-grace-period", func(c *config) (string, bool) { return number(c.EvictionMaxPodGracePeriod) }},
	{"failSwapOn", "fail-swap-on", func(c *config) (string, bool) { return boolean(c.FailSwapOn) }},
	{"containerLogMaxSize", "container-log-max-size", func(c *config) (string, bool) { return text(c.ContainerLogMaxSize) }},
	{"containerLogMaxFiles", "container-log-max-files", func(c *config) (string, bool) { return numberPtr(c.ContainerLogMaxFiles) }},
	{"systemReserved", "system-reserved", func(c *config) (string, bool) { return pairs(c.SystemReserved, "=") }},
	{"kubeReserved", "kube-reserved", func(c *config) (string, bool) { return pairs(c.KubeReserved, "=") }},
	{"enforceNodeAllocatable", "enforce-node-allocatable", func(c *config) (string, bool) { return list(c.EnforceNodeAllocatable) }},
	{"allowedUnsafeSysctls", "allowed-unsafe-sysctls", func(c *config) (string, bool) { return list(c.AllowedUnsafeSysctls) }},
	{"providerID", "provider-id", func(c *config) (string, bool) { return text(c.ProviderID) }},
	{"seccompDefault", "seccomp-default", func(c *config) (string, bool) { return boolean(c.SeccompDefault) }},
	{"registerWithTaints", "register-with-taints", func(c *config) (string, bool) { return taints(c.RegisterWithTaints) }},
	{"registerNode", "register-node", func(c *config) (string, bool) { return boolean(c.RegisterNode) }},
	{"localStorageCapacityIsolation", "local-storage-capacity-isolation", func(c *config) (string, bool) { return boolean(c.LocalStorageCapacityIsolation) }},
	{"containerRuntimeEndpoint", "container-runtime-endpoint", func(c *config) (string, bool) { return text(c.ContainerRuntimeEndpoint) }},
	{"imageServiceEndpoint", "image-service-endpoint", func(c *config) (string, bool) { return text(c.ImageServiceEndpoint) }},
}

// Flags are the flags that say what the file says. Fields that the file does not have, or has with the zero that stands for the default, are left out.
func (f *File) Flags() []Flag {
	var flags []Flag
	for _, r := range table {
		if value, set := r.text(&f.Config); set {
			flags = append(flags, Flag{Name: r.flag, Value: value, Field: r.field})
		}
	}
	return flags
}

// Ignored names what the file asks for and has no effect: fields that are in no row of the table and say something else than what happens anyway.
func (f *File) Ignored() []string {
	known := map[string]bool{"": true, "mergeDefaultEvictionSettings": true, "logging": true}
	for _, r := range table {
		name, _, _ := strings.Cut(r.field, ".")
		known[name] = true
	}
	var ignored []string
	given, usual := reflect.ValueOf(f.Config), reflect.ValueOf(Defaults())
	for i := range given.NumField() {
		name, _, _ := strings.Cut(given.Type().Field(i).Tag.Get("json"), ",")
		if !known[name] && !empty(given.Field(i)) && !apiequality.Semantic.DeepEqual(given.Field(i).Interface(), usual.Field(i).Interface()) {
			ignored = append(ignored, name)
		}
	}
	usually := Defaults()
	for name, times := range map[string][2]metav1.Duration{
		"authentication.webhook.cacheTTL":            {f.Config.Authentication.Webhook.CacheTTL, usually.Authentication.Webhook.CacheTTL},
		"authorization.webhook.cacheAuthorizedTTL":   {f.Config.Authorization.Webhook.CacheAuthorizedTTL, usually.Authorization.Webhook.CacheAuthorizedTTL},
		"authorization.webhook.cacheUnauthorizedTTL": {f.Config.Authorization.Webhook.CacheUnauthorizedTTL, usually.Authorization.Webhook.CacheUnauthorizedTTL},
	} {
		if times[0].Duration != 0 && times[0] != times[1] {
			ignored = append(ignored, name)
		}
	}
	if l := f.Config.Logging; l.Format != "" && l.Format != "text" || l.Verbosity != 0 || len(l.VModule) > 0 {
		ignored = append(ignored, "logging")
	}
	slices.Sort(ignored)
	return ignored
}

// empty says whether a value is zero, or a map or list without anything in it.
func empty(v reflect.Value) bool {
	if v.Kind() == reflect.Map || v.Kind() == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}

// hard are the hard thresholds, with the default ones that the file does not mention when it says so.
func hard(c *config) (string, bool) {
	if c.EvictionHard != nil && c.MergeDefaultEvictionSettings != nil && *c.MergeDefaultEvictionSettings {
		all := eviction.DefaultHard()
		maps.Copy(all, c.EvictionHard)
		return pairs(all, "<")
	}
	return pairs(c.EvictionHard, "<")
}

func text(s string) (string, bool) { return s, s != "" }

func textPtr(s *string) (string, bool) {
	if s == nil {
		return "", false
	}
	return *s, true
}

func yes(b bool) (string, bool) { return "true", b }

func boolean(b *bool) (string, bool) {
	if b == nil {
		return "", false
	}
	return strconv.FormatBool(*b), true
}

func number[N int32 | int64](n N) (string, bool) { return fmt.Sprint(n), n != 0 }

func numberPtr[N int32 | int64](n *N) (string, bool) {
	if n == nil {
		return "", false
	}
	return fmt.Sprint(*n), true
}

func duration(d metav1.Duration) (string, bool) { return d.Duration.String(), d.Duration != 0 }

func list(all []string) (string, bool) { return strings.Join(all, ","), all != nil }

func pairs(m map[string]string, separator string) (string, bool) {
	return sortedPairs(m, separator), m != nil
}

// taints writes taints as --register-with-taints takes them: KEY=VALUE:EFFECT.
func taints(all []corev1.Taint) (string, bool) {
	var texts []string
	for _, t := range all {
		texts = append(texts, t.ToString())
	}
	return strings.Join(texts, ","), all != nil
}
