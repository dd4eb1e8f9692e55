package cluster

import (
	"vigil/kubelet/eviction"
	"vigil/kubelet/server"
)

// configz is the configuration that the kubelet's server shows at /configz, under the names of upstream's KubeletConfiguration
// (kubelet.config.k8s.io/v1beta1). What is not there is upstream's default or does not exist here.
func (n *realNode) configz() any {
	c := n.config
	port := c.Port
	if port == 0 {
		port = server.DefaultPort
	}
	hard := c.Eviction.Hard
	if hard == nil {
		hard = eviction.DefaultHard()
	}
	config := map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
		"address": c.Address, "port": port, "staticPodPath": c.StaticPodPath, "podLogsDir": c.PodLogDir,
		"tlsCertFile": c.CertFile, "tlsPrivateKeyFile": c.KeyFile, "serverTLSBootstrap": c.CertFile == "",
		"authentication": map[string]any{
			"x509": map[string]any{"clientCAFile": c.ClientCAFile}, "webhook": map[string]any{"enabled": true}, "anonymous": map[string]any{"enabled": c.Anonymous},
		},
		"authorization": map[string]any{"mode": "Webhook"},
		"clusterDNS":    c.ClusterDNS, "clusterDomain": c.ClusterDomain, "resolvConf": c.ResolvConf,
		"cgroupDriver": "cgroupfs", "cgroupRoot": c.CgroupRoot, "cpuCFSQuota": !c.NoCPUQuota,
		"podPidsLimit": c.PodPidsLimit, "maxPods": n.capacity.Pods().Value(),
		"systemReserved": c.SystemReserved, "kubeReserved": c.KubeReserved,
		"evictionHard": hard, "evictionSoft": c.Eviction.Soft, "evictionSoftGracePeriod": c.Eviction.SoftGracePeriod, "evictionMinimumReclaim": c.Eviction.MinimumReclaim,
		"allowedUnsafeSysctls": c.UnsafeSysctls, "seccompDefault": c.SeccompDefault, "serializeImagePulls": c.SerialPulls,
		"containerRuntimeEndpoint": c.RuntimeEndpoint, "imageServiceEndpoint": c.ImageEndpoint,
	}
	for name, value := range config { // as omitempty has it
		switch v := value.(type) {
		case string:
			if v == "" {
				delete(config, name)
			}
		case int64:
			if v == 0 {
				delete(config, name)
			}
		case map[string]string:
			if len(v) == 0 {
				delete(config, name)
			}
		case []string:
			if len(v) == 0 {
				delete(config, name)
			}
		}
	}
	return config
}
