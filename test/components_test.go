package test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/internal/built"
	"vigil/internal/eventually"
	"vigil/internal/porttest"
	"vigil/test/harness"
)

// component runs one component alone, under the name that upstream's binary has, until the test ends or stop is called.
type runningComponent struct {
	cmd    *exec.Cmd
	output *bytes.Buffer
	exited chan error
}

func startComponent(t *testing.T, name string, args ...string) *runningComponent {
	t.Helper()
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(built.Program(t), link); err != nil {
		t.Fatal(err)
	}
	c := &runningComponent{cmd: exec.Command(link, args...), output: &bytes.Buffer{}, exited: make(chan error, 1)}
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { c.exited <- c.cmd.Wait() }()
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("output of %s:\n%s", name, c.output)
		}
	})
	return c
}

func (c *runningComponent) kill() {
	c.cmd.Process.Kill()
	err := <-c.exited
	c.exited <- err
}

// Two API servers on one etcd, controllers and scheduler as processes of their own with leader election, kubelets likewise:
// what one process does is seen by all.
func TestComponents_Apart(t *testing.T) {
	etcdPort := porttest.FreeRange(t, 2)
	p := startCluster(t, "--nodes", "0", "--etcd-port", strconv.Itoa(etcdPort))
	pki := func(name string) string { return filepath.Join(p.DataDir, "pki", name) }
	conf := func(name string) string { return filepath.Join(p.DataDir, name) }

	secondPort := porttest.Free(t)
	startComponent(t, "kube-apiserver", "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(secondPort),
		fmt.Sprintf("--etcd-servers=https://127.0.0.1:%d", etcdPort), "--etcd-cafile="+pki("etcd/ca.crt"),
		"--etcd-certfile="+pki("apiserver-etcd-client.crt"), "--etcd-keyfile="+pki("apiserver-etcd-client.key"),
		"--tls-cert-file="+pki("apiserver.crt"), "--tls-private-key-file="+pki("apiserver.key"), "--client-ca-file="+pki("ca.crt"))
	managerPort := porttest.Free(t)
	manager := startComponent(t, "kube-controller-manager", "--kubeconfig="+conf("controller-manager.conf"), "--secure-port="+strconv.Itoa(managerPort), "--client-ca-file="+pki("ca.crt"))
	startComponent(t, "kube-scheduler", "--kubeconfig="+conf("scheduler.conf"), "--secure-port=0")
	startComponent(t, "kubelet", "--runtime=simulated", "--kubeconfig="+conf("admin.conf"), "--hostname-override=far-1")

	config, err := clientcmd.BuildConfigFromFlags(fmt.Sprintf("https://127.0.0.1:%d", secondPort), p.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	second, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	eventually.Nil(t, "the second API server", func() error {
		_, err := second.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err
	})
	for i := range 20 { // written through one, read at once through the other
		name := fmt.Sprintf("c-%d", i)
		made, err := p.Client().CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := second.CoreV1().ConfigMaps("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil || got.ResourceVersion != made.ResourceVersion {
			t.Fatalf("%s through the second server: %v, %v", name, got, err)
		}
	}
	p.Kubectl("create", "deployment", "apart", "--image=demo", "--replicas=3")
	p.Kubectl("rollout", "status", "deploy/apart", harness.InTime)

	// Components hold connections to the API server, and leader election leases.
	leases := p.Kubectl("get", "leases", "-n", "kube-system", "-o", "name")
	for _, name := range []string{"kube-controller-manager", "kube-scheduler"} {
		if !strings.Contains(leases, name) {
			t.Errorf("no lease of %s in:\n%s", name, leases)
		}
	}
	insecure := exec.Command("curl", "-sk", fmt.Sprintf("https://127.0.0.1:%d/healthz", managerPort))
	if out, err := insecure.Output(); err != nil || string(out) != "ok" {
		t.Errorf("health of the controller manager: %s, %v", out, err)
	}
	anonymous := exec.Command("curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", fmt.Sprintf("https://127.0.0.1:%d/metrics", managerPort))
	if out, err := anonymous.Output(); err != nil || string(out) != "403" {
		t.Errorf("metrics without certificate: %s, %v", out, err)
	}
	// A second controller manager takes over when the first is killed.
	startComponent(t, "kube-controller-manager", "--kubeconfig="+conf("controller-manager.conf"), "--secure-port=0")
	manager.kill()
	p.Kubectl("scale", "deploy", "apart", "--replicas=5")
	p.Kubectl("rollout", "status", "deploy/apart", harness.InTime)
}

// A node that is killed becomes not ready and its pods are replaced elsewhere.
func TestNodeFailure(t *testing.T) {
	p := startCluster(t, "--nodes", "1", "--node-monitor-grace-period", "5s", "--node-lease-duration-seconds", "4")
	kubelet := startComponent(t, "kubelet", "--runtime=simulated", "--kubeconfig="+p.Kubeconfig(), "--hostname-override=doomed", "--pod-cidr=10.250.0.0/24", "--node-lease-duration-seconds=4")
	p.Kubectl("wait", "node/doomed", "--for=create", harness.InTime)
	p.Kubectl("wait", "node/doomed", "--for=condition=Ready", harness.InTime)
	p.KubectlIn(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: moving}
spec:
  replicas: 4
  selector: {matchLabels: {app: moving}}
  template:
    metadata: {labels: {app: moving}}
    spec:
      tolerations:
      - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
      - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 1}
      containers: [{name: c, image: demo}]
`, "apply", "-f", "-")
	p.Kubectl("rollout", "status", "deploy/moving", harness.InTime)
	on := func(node string) []string {
		return strings.Fields(p.Kubectl("get", "pods", "-l", "app=moving", "-o", "name", "--field-selector", "spec.nodeName="+node))
	}
	before := on("doomed")
	if len(before) == 0 {
		t.Fatal("no pod runs on the node that is to be killed")
	}
	kubelet.kill()
	p.Kubectl("wait", "node/doomed", "--for=condition=Ready=Unknown", harness.InTime)
	eventually.Nil(t, "pods on the other node", func() error {
		running := 0
		for _, name := range strings.Fields(p.Kubectl("get", "pods", "-l", "app=moving", "-o", `jsonpath={range .items[?(@.spec.nodeName=="node-1")]}{.status.phase} {end}`)) {
			if name == "Running" {
				running++
			}
		}
		if running < 4 {
			return fmt.Errorf("%d run", running)
		}
		return nil
	})
	taints := p.Kubectl("get", "node", "doomed", "-o", "jsonpath={.spec.taints[*].key}")
	if !strings.Contains(taints, "node.kubernetes.io/unreachable") {
		t.Errorf("taints of the dead node: %s", taints)
	}
	if !slices.ContainsFunc(strings.Split(p.Kubectl("get", "nodes"), "\n"), func(line string) bool {
		return strings.Contains(line, "doomed") && strings.Contains(line, "NotReady")
	}) {
		t.Errorf("kubectl get nodes does not tell:\n%s", p.Kubectl("get", "nodes"))
	}
	// It comes back.
	startComponent(t, "kubelet", "--runtime=simulated", "--kubeconfig="+p.Kubeconfig(), "--hostname-override=doomed", "--pod-cidr=10.250.0.0/24", "--node-lease-duration-seconds=4")
	p.Kubectl("wait", "node/doomed", "--for=condition=Ready", harness.InTime)
	eventually.Nil(t, "taints gone", func() error {
		if taints := p.Kubectl("get", "node", "doomed", "-o", "jsonpath={.spec.taints[*].key}"); taints != "" {
			return fmt.Errorf("still %s", taints)
		}
		return nil
	})
}

// Nothing listens in plain text, and nobody without a certificate gets in.
func TestOnlyMutualTLS(t *testing.T) {
	p := startCluster(t, "--nodes", "0")
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", p.port), eventually.Limit)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /api HTTP/1.1\r\nHost: x\r\n\r\n")
	conn.SetReadDeadline(time.Now().Add(eventually.Limit))
	answer := make([]byte, 512)
	n, _ := conn.Read(answer)
	if strings.Contains(string(answer[:n]), "200 OK") {
		t.Errorf("plain text was answered: %s", answer[:n])
	}
	for _, test := range []struct{ path, code string }{
		{"/api/v1/namespaces", "403"}, {"/apis", "403"}, {"/metrics", "403"}, {"/healthz", "200"}, {"/version", "200"},
	} {
		out, err := exec.Command("curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", fmt.Sprintf("https://127.0.0.1:%d%s", p.port, test.path)).Output()
		if err != nil || string(out) != test.code {
			t.Errorf("%s without certificate: %s, %v, want %s", test.path, out, err, test.code)
		}
	}
}
