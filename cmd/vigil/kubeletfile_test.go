package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"vigil/kubelet/configfile"
)

// TestConfigFile checks that flags win over the file, the file over defaults.
func TestConfigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 20
clusterDNS: [10.0.0.1]
authentication: {anonymous: {enabled: true}}
evictionHard: {memory.available: 5%}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := newKubelet().Flags()
	if err := flags.Parse([]string{"--config", file, "--max-pods=7", "--cluster-dns=10.0.0.9", "--anonymous-auth=false"}); err != nil {
		t.Fatal(err)
	}
	if _, err := (&kubeletFileFlags{file: file}).apply(flags); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"max-pods": "7", "cluster-dns": "[10.0.0.9]", "anonymous-auth": "false", "eviction-hard": "memory.available<5%", "pods-per-core": "0", "container-log-max-size": "10Mi",
	} {
		if got := flags.Lookup(name).Value.String(); got != want {
			t.Errorf("--%s is %s, want %s", name, got, want)
		}
	}
}

// TestConfigFlags checks that each flag of the file's fields exists and takes the default.
func TestConfigFlags(t *testing.T) {
	flags := newKubelet().Flags()
	all := (&configfile.File{Config: configfile.Defaults()}).Flags()
	if len(all) < 30 {
		t.Errorf("only %d flags", len(all))
	}
	for _, flag := range all {
		if err := flags.Set(flag.Name, flag.Value); err != nil {
			t.Errorf("%s: --%s=%s: %v", flag.Field, flag.Name, flag.Value, err)
		}
	}
}

func TestKubeletRefuses(t *testing.T) {
	for flag, want := range map[string]string{
		"--image-gc-high-threshold=101":                   "imageGCHighThresholdPercent (--image-gc-high-threshold) 101 must be between 0 and 100, inclusive",
		"--healthz-port=70000":                            "healthzPort (--healthz-port) 70000 must be between 1 and 65535, inclusive",
		"--authorization-mode=RBAC":                       `unknown authorization mode "RBAC"`,
		"--node-labels=node-role.kubernetes.io/master=":   "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [node-role.kubernetes.io/master]",
		"--register-with-taints=a":                        "invalid taint spec: a",
		"--tls-cert-file=/a":                              "--tls-cert-file and --tls-private-key-file go together",
		"--tls-min-version=VersionTLS10":                  "is broken",
		"--config=/nonexistent/config":                    "failed to load kubelet config file, path: /nonexistent/config",
		"--node-labels=a b=c":                             "--node-labels",
		"--enforce-node-allocatable=pods,system-reserved": "--enforce-node-allocatable",
	} {
		command := newKubelet()
		command.SilenceErrors, command.SilenceUsage = true, true
		command.SetArgs([]string{"--kubeconfig=/nonexistent/kubeconfig", "--runtime=simulated", flag})
		if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", flag, err, want)
		}
	}
}
