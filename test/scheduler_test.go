package test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"vigil/internal/built"
	"vigil/internal/porttest"
	"vigil/test/harness"
)

// A kube-scheduler with a KubeSchedulerConfiguration: its profiles schedule beside the cluster's own scheduler, /configz shows what it works with,
// and a file that asks for what is not there ends it with one sentence.
func TestScheduler_ConfigFile(t *testing.T) {
	p := startCluster(t, "--nodes", "2")
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	write := func(more string) {
		t.Helper()
		text := fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %s}
leaderElection: {resourceName: further-scheduler}
podInitialBackoffSeconds: 2
profiles:
- schedulerName: bold
  plugins: {multiPoint: {disabled: [{name: TaintToleration}, {name: NodeUnschedulable}]}}
- schedulerName: careful
%s`, p.Kubeconfig(), more)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("extenders: []\nalgorithm: best\n")
	out, err := exec.Command(built.Program(t), "scheduler", "--config="+file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), `strict decoding error: unknown field "algorithm"`) || strings.Count(string(out), "\n") != 1 {
		t.Errorf("a file with an unknown field: %v, %s", err, out)
	}
	write("")
	port := porttest.Free(t)
	startComponent(t, "kube-scheduler", "--config="+file, fmt.Sprintf("--secure-port=%d", port),
		"--client-ca-file="+filepath.Join(p.DataDir, "pki", "ca.crt"))

	p.Kubectl("cordon", "node-1", "node-2")
	for _, scheduler := range []string{"bold", "careful"} {
		p.KubectlIn(`
apiVersion: v1
kind: Pod
metadata: {name: `+scheduler+`}
spec: {schedulerName: `+scheduler+`, containers: [{name: c, image: demo}]}
`, "apply", "-f", "-")
	}
	p.Kubectl("wait", "pod/bold", "--for=condition=Ready", harness.InTime)
	p.Kubectl("wait", "pod/careful", "--for=condition=PodScheduled=False", harness.InTime)
	if why := p.Kubectl("get", "pod", "careful", "-o", "jsonpath={.status.conditions[0].message}"); !strings.Contains(why, "0/2 nodes are available: 2 node(s) were unschedulable.") {
		t.Errorf("the pod of the profile with all plug-ins says %q", why)
	}
	if leases := p.Kubectl("get", "leases", "-n", "kube-system", "-o", "name"); !strings.Contains(leases, "further-scheduler") {
		t.Errorf("leases: %s", leases)
	}
	cert := filepath.Join(t.TempDir(), "admin.pem") // the file of an administrator
	config, err := clientcmd.LoadFromFile(p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	var user *clientcmdapi.AuthInfo
	for _, user = range config.AuthInfos {
	}
	if err := os.WriteFile(cert, append(append([]byte{}, user.ClientCertificateData...), user.ClientKeyData...), 0o600); err != nil {
		t.Fatal(err)
	}
	shown, err := exec.Command("curl", "-sk", "--cert", cert, fmt.Sprintf("https://127.0.0.1:%d/configz", port)).Output()
	if err != nil || !strings.Contains(string(shown), `"schedulerName":"bold"`) || !strings.Contains(string(shown), `"podInitialBackoffSeconds":2`) {
		t.Errorf("/configz: %v, %s", err, shown)
	}
	p.Kubectl("uncordon", "node-1")
	p.Kubectl("wait", "pod/careful", "--for=condition=Ready", harness.InTime)
}
