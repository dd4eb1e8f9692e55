package configfile

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// Defaults are upstream's (pkg/kubelet/apis/config/v1beta1/defaults.go), but for logging.
func Defaults() kubeletv1beta1.KubeletConfiguration {
	lasting := func(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
	var c kubeletv1beta1.KubeletConfiguration
	c.APIVersion, c.Kind = kind.ToAPIVersionAndKind()
	c.EnableServer = new(true)
	c.SyncFrequency, c.FileCheckFrequency, c.HTTPCheckFrequency = lasting(time.Minute), lasting(20*time.Second), lasting(20*time.Second)
	c.Address, c.Port = "0.0.0.0", 10250
	c.Authentication.Anonymous.Enabled, c.Authentication.Webhook.Enabled = new(false), new(true)
	c.Authentication.Webhook.CacheTTL = lasting(2 * time.Minute)
	c.Authorization.Mode = kubeletv1beta1.KubeletAuthorizationModeWebhook
	c.Authorization.Webhook.CacheAuthorizedTTL, c.Authorization.Webhook.CacheUnauthorizedTTL = lasting(5*time.Minute), lasting(30*time.Second)
	c.RegistryPullQPS, c.RegistryBurst = new(int32(5)), 10
	c.ImagePullCredentialsVerificationPolicy = kubeletv1beta1.NeverVerifyPreloadedImages
	c.EventRecordQPS, c.EventBurst = new(int32(50)), 100
	c.EnableDebuggingHandlers = new(true)
	c.HealthzPort, c.HealthzBindAddress = new(int32(10248)), "127.0.0.1"
	c.OOMScoreAdj = new(int32(-999))
	c.StreamingConnectionIdleTimeout = lasting(4 * time.Hour)
	c.NodeStatusUpdateFrequency, c.NodeStatusReportFrequency, c.NodeLeaseDurationSeconds = lasting(10*time.Second), lasting(5*time.Minute), 40
	c.ImageMinimumGCAge, c.ImageGCHighThresholdPercent, c.ImageGCLowThresholdPercent = lasting(2*time.Minute), new(int32(85)), new(int32(80))
	c.VolumeStatsAggPeriod = lasting(time.Minute)
	c.CgroupsPerQOS, c.CgroupDriver = new(true), "cgroupfs"
	c.CPUManagerPolicy, c.CPUManagerReconcilePeriod = "none", lasting(10*time.Second)
	c.MemoryManagerPolicy = kubeletv1beta1.NoneMemoryManagerPolicy
	c.TopologyManagerPolicy, c.TopologyManagerScope = kubeletv1beta1.NoneTopologyManagerPolicy, kubeletv1beta1.ContainerTopologyManagerScope
	c.RuntimeRequestTimeout = lasting(2 * time.Minute)
	c.HairpinMode = kubeletv1beta1.PromiscuousBridge
	c.MaxPods, c.PodPidsLimit = 110, new(int64(-1))
	c.ResolverConfig = new("/etc/resolv.conf")
	c.CPUCFSQuota, c.CPUCFSQuotaPeriod = new(true), new(lasting(100*time.Millisecond))
	c.NodeStatusMaxImages = new(int32(50))
	c.MaxOpenFiles = 1000000
	c.ContentType = "application/vnd.kubernetes.protobuf"
	c.KubeAPIQPS, c.KubeAPIBurst = new(int32(50)), 100
	c.SerializeImagePulls = new(true)
	c.EvictionPressureTransitionPeriod = lasting(5 * time.Minute)
	c.MergeDefaultEvictionSettings = new(false)
	c.EnableControllerAttachDetach = new(true)
	c.MakeIPTablesUtilChains, c.IPTablesMasqueradeBit, c.IPTablesDropBit = new(true), new(int32(14)), new(int32(15))
	c.FailSwapOn = new(true)
	c.MemorySwap.SwapBehavior = "NoSwap"
	c.ContainerLogMaxSize, c.ContainerLogMaxFiles, c.ContainerLogMaxWorkers = "10Mi", new(int32(5)), new(int32(1))
	c.ContainerLogMonitorInterval = new(lasting(10 * time.Second))
	c.ConfigMapAndSecretChangeDetectionStrategy = kubeletv1beta1.WatchChangeDetectionStrategy
	c.EnforceNodeAllocatable = []string{"pods"}
	c.VolumePluginDir = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"
	c.EnableSystemLogHandler, c.EnableProfilingHandler, c.EnableDebugFlagsHandler = new(true), new(true), new(true)
	c.SeccompDefault, c.FailCgroupV1 = new(false), new(false)
	c.MemoryThrottlingFactor = new(0.9)
	c.MemoryReservationPolicy = kubeletv1beta1.NoneMemoryReservationPolicy
	c.RegisterNode, c.LocalStorageCapacityIsolation = new(true), new(true)
	c.ContainerRuntimeEndpoint = "unix:///run/containerd/containerd.sock"
	c.PodLogsDir = "/var/log/pods"
	return c
}
