package configfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kubeadm is what kubeadm 1.37 writes to /var/lib/kubelet/config.yaml.
const kubeadm = `apiVersion: kubelet.config.k8s.io/v1beta1
authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: ""
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
kind: KubeletConfiguration
logging:
  flushFrequency: 0
  options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
resolvConf: /run/systemd/resolve/resolv.conf
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
shutdownGracePeriodCriticalPods: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
`

// head begins a file.
const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, text string) *File {
	t.Helper()
	f, err := Read(write(t, t.TempDir(), "config.yaml", text), "")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func flagsOf(f *File) map[string]string {
	flags := map[string]string{}
	for _, flag := range f.Flags() {
		flags[flag.Name] = flag.Value
	}
	return flags
}

func equal(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if g, set := got[name]; !set || g != value {
			t.Errorf("--%s is %q (%t), want %q", name, g, set, value)
		}
	}
	for name, value := range got {
		if _, wanted := want[name]; !wanted {
			t.Errorf("--%s=%s was not asked for", name, value)
		}
	}
}

func TestKubeadm(t *testing.T) {
	f := read(t, kubeadm)
	equal(t, flagsOf(f), map[string]string{
		"anonymous-auth": "false", "authentication-token-webhook": "true", "client-ca-file": "/etc/kubernetes/pki/ca.crt", "authorization-mode": "Webhook",
		"cluster-dns": "10.96.0.10", "cluster-domain": "cluster.local", "healthz-bind-address": "127.0.0.1", "healthz-port": "10248",
		"resolv-conf": "/run/systemd/resolve/resolv.conf", "rotate-certificates": "true", "pod-manifest-path": "/etc/kubernetes/manifests",
	})
	if got := f.Ignored(); !slices.Equal(got, []string{"cgroupDriver"}) {
		t.Errorf("ignored: %v", got)
	}
}

func TestFlags(t *testing.T) {
	equal(t, flagsOf(read(t, head+`
serializeImagePulls: false
maxParallelImagePulls: 3
healthzPort: 0
nodeStatusUpdateFrequency: 4s
evictionHard: {memory.available: 200Mi, nodefs.available: "7%"}
evictionSoft: {}
mergeDefaultEvictionSettings: true
systemReserved: {memory: 1Gi, cpu: 200m}
enforceNodeAllocatable: [none]
registerWithTaints: [{key: a/b, value: c, effect: NoSchedule}, {key: d, effect: NoExecute}]
`)), map[string]string{
		"serialize-image-pulls": "false", "max-parallel-image-pulls": "3", "healthz-port": "0",
		"node-status-update-frequency": "4s", "node-status-report-frequency": "4s",
		"eviction-hard": "imagefs.available<15%,imagefs.inodesFree<5%,memory.available<200Mi,nodefs.available<7%,nodefs.inodesFree<5%",
		"eviction-soft": "", "system-reserved": "cpu=200m,memory=1Gi", "enforce-node-allocatable": "none",
		"register-with-taints": "a/b=c:NoSchedule,d:NoExecute",
	})
}

func TestIgnored(t *testing.T) {
	got := read(t, head+`
syncFrequency: 1m0s
hairpinMode: promiscuous-bridge
registryPullQPS: 5
featureGates: {}
memorySwap: {swapBehavior: LimitedSwap}
shutdownGracePeriod: 30s
readOnlyPort: 10255
staticPodURL: http://localhost/
authentication: {webhook: {cacheTTL: 5m}}
logging: {format: json}
protectKernelDefaults: true
`).Ignored()
	want := []string{"authentication.webhook.cacheTTL", "logging", "memorySwap", "protectKernelDefaults", "readOnlyPort", "shutdownGracePeriod", "staticPodURL"}
	if !slices.Equal(got, want) {
		t.Errorf("ignored: %v, want %v", got, want)
	}
}

func TestDropIns(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "config.yaml", head+"maxPods: 10\nclusterDNS: [10.0.0.1, 10.0.0.2]\nkubeReserved: {cpu: 1000m}\n")
	drop := filepath.Join(dir, "d")
	write(t, drop, "10-a.conf", head+"maxPods: 20\nclusterDNS: [10.0.0.3]\nkubeReserved: {memory: 1Gi}\n")
	write(t, drop, "20-b.conf", `{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":30}`)
	write(t, drop, "30-c.yaml", "not read")
	f, err := Read(file, drop)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, flagsOf(f), map[string]string{"max-pods": "30", "cluster-dns": "10.0.0.3", "kube-reserved": "cpu=1000m,memory=1Gi"})
}

func TestRefused(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", " \n", "is empty"},
		{"unknown field", head + "maxPod: 3\n", `strict decoding error: unknown field "maxPod"`},
		{"unknown nested field", head + "authentication: {x509: {file: a}}\n", `strict decoding error: unknown field "authentication.x509.file"`},
		{"field twice", head + "maxPods: 3\nmaxPods: 4\n", `key "maxPods" already set in map`},
		{"wrong case", head + "maxpods: 3\n", `unknown field "maxpods"`},
		{"wrong type", head + "maxPods: many\n", "cannot unmarshal string into Go struct field KubeletConfiguration.maxPods of type int32"},
		{"wrong duration", head + "syncFrequency: soon\n", `time: invalid duration "soon"`},
		{"wrong kind", "apiVersion: v1\nkind: Config\n", `no kind "Config" is registered for version "v1"`},
		{"wrong version", "apiVersion: kubelet.config.k8s.io/v1\nkind: KubeletConfiguration\n", `no kind "KubeletConfiguration" is registered for version "kubelet.config.k8s.io/v1"`},
		{"no kind", "apiVersion: kubelet.config.k8s.io/v1beta1\n", "Object 'Kind' is missing"},
		{"no version", "kind: KubeletConfiguration\n", "Object 'apiVersion' is missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := write(t, t.TempDir(), "config.yaml", test.text)
			_, err := Read(file, "")
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "failed to load kubelet config file, path: "+file) {
				t.Errorf("error %v, want %s", err, test.want)
			}
		})
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none"), ""); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("error for a file that is not there: %v", err)
	}
}
