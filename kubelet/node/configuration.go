package node

import (
	"cmp"
	"crypto/tls"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"vigil/kubelet/configfile"
	"vigil/kubelet/eviction"
	"vigil/kubelet/server"
)

// Check says what is wrong with a node's configuration, in the words of upstream's kubelet.
func (c *Config) Check() error {
	real, err := c.Real.withDefaults(c.NodeName)
	if err != nil {
		return err
	}
	return configfile.Validate(c.configuration(real))
}

// configuration is what a node with real containers works with, under the names of upstream's KubeletConfiguration: what its server shows at
// /configz. What has no effect here has upstream's default.
func (c *Config) configuration(real Real) *kubeletv1beta1.KubeletConfiguration {
	k := configfile.Defaults()
	k.StaticPodPath, k.PodLogsDir = real.StaticPodPath, real.PodLogDir
	k.ContainerRuntimeEndpoint, k.ImageServiceEndpoint = real.RuntimeEndpoint, real.ImageEndpoint // "": a containerd of our own
	k.RuntimeRequestTimeout.Duration = cmp.Or(real.RequestTimeout, k.RuntimeRequestTimeout.Duration)
	k.RotateCertificates, k.RegisterNode = c.RotateCertificates || c.BootstrapKubeconfig != "", new(!c.NoRegister)
	k.RegisterWithTaints, k.ProviderID = c.Taints, c.ProviderID
	k.NodeStatusUpdateFrequency.Duration = cmp.Or(c.StatusUpdateFrequency, k.NodeStatusUpdateFrequency.Duration)
	k.NodeStatusReportFrequency.Duration = cmp.Or(c.StatusReportFrequency, k.NodeStatusReportFrequency.Duration)
	if c.LeaseDuration != 0 {
		k.NodeLeaseDurationSeconds = int32(c.LeaseDuration / time.Second)
	}
	real.Server.describe(&k)
	k.ClusterDNS, k.ClusterDomain, k.ResolverConfig = real.ClusterDNS, real.ClusterDomain, new(real.ResolvConf)
	k.CgroupRoot, k.CPUCFSQuota = real.CgroupRoot, new(!real.NoCPUQuota)
	k.FailSwapOn, k.LocalStorageCapacityIsolation = new(real.FailSwapOn), new(!real.NoStorageLimits)
	k.SeccompDefault, k.AllowedUnsafeSysctls = new(real.SeccompDefault), real.UnsafeSysctls
	if real.MaxPods != 0 {
		k.MaxPods = narrow(real.MaxPods)
	}
	k.PodsPerCore, k.PodPidsLimit = narrow(real.PodsPerCore), new(real.PodPidsLimit)
	k.SystemReserved, k.KubeReserved = real.SystemReserved, real.KubeReserved
	k.VolumeStatsAggPeriod.Duration = cmp.Or(real.VolumeStatsPeriod, k.VolumeStatsAggPeriod.Duration)
	real.describeEviction(&k)
	real.Images.describe(&k, real.SerialPulls)
	return &k
}

func (s *Server) describe(k *kubeletv1beta1.KubeletConfiguration) {
	k.EnableServer = new(!s.Off)
	k.Address, k.Port = cmp.Or(s.Address, k.Address), int32(cmp.Or(s.Port, server.DefaultPort))
	k.HealthzBindAddress, k.HealthzPort = cmp.Or(s.HealthzAddress, k.HealthzBindAddress), new(int32(s.HealthzPort))
	k.TLSCertFile, k.TLSPrivateKeyFile, k.ServerTLSBootstrap = s.CertFile, s.KeyFile, s.CertFile == "" && !s.SelfSigned
	if s.TLSMinVersion == tls.VersionTLS13 {
		k.TLSMinVersion = "VersionTLS13"
	}
	for _, suite := range s.TLSCipherSuites {
		k.TLSCipherSuites = append(k.TLSCipherSuites, tls.CipherSuiteName(suite))
	}
	k.Authentication.X509.ClientCAFile = s.ClientCAFile
	k.Authentication.Anonymous.Enabled, k.Authentication.Webhook.Enabled = new(s.Anonymous), new(!s.NoTokens)
	if s.AllowAll {
		k.Authorization.Mode = kubeletv1beta1.KubeletAuthorizationModeAlwaysAllow
	}
}

func (c *Real) describeEviction(k *kubeletv1beta1.KubeletConfiguration) {
	k.EvictionHard = c.Eviction.Hard
	if k.EvictionHard == nil {
		k.EvictionHard = eviction.DefaultHard()
	}
	k.EvictionSoft, k.EvictionSoftGracePeriod, k.EvictionMinimumReclaim = c.Eviction.Soft, c.Eviction.SoftGracePeriod, c.Eviction.MinimumReclaim
	k.EvictionMaxPodGracePeriod = int32(c.EvictionMaxPodGrace / time.Second)
	k.EvictionPressureTransitionPeriod = metav1.Duration{Duration: cmp.Or(c.EvictionTransition, k.EvictionPressureTransitionPeriod.Duration)}
	if c.Eviction.NoPodsEnforced {
		k.EnforceNodeAllocatable = []string{"none"}
	}
}

func (c *Images) describe(k *kubeletv1beta1.KubeletConfiguration, serial bool) {
	k.SerializeImagePulls = new(serial)
	if c.MaxParallelPulls >= 0 && !serial { // one after another whatever the number
		k.MaxParallelImagePulls = new(int32(cmp.Or(c.MaxParallelPulls, 5)))
	}
	if c.HighThreshold != 0 {
		k.ImageGCHighThresholdPercent = new(int32(c.HighThreshold))
	}
	if c.LowThreshold != 0 {
		k.ImageGCLowThresholdPercent = new(int32(c.LowThreshold))
	}
	k.ImageMinimumGCAge.Duration = cmp.Or(c.MinAge, k.ImageMinimumGCAge.Duration)
	k.ImageMaximumGCAge.Duration = c.MaxAge
	k.ContainerLogMaxSize = cmp.Or(c.LogMaxSize, k.ContainerLogMaxSize)
	if c.LogMaxFiles != 0 {
		k.ContainerLogMaxFiles = new(int32(c.LogMaxFiles))
	}
}

// narrow makes a number one of 32 bits: one that does not fit becomes the largest.
func narrow(n int64) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
