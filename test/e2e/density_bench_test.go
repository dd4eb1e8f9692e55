package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/built"
	"vigil/internal/eventually"
)

// BenchmarkHundredPods measures a node full of pods, its kubelet in a process of its own that has joined by a token: how long it takes
// from the request for a deployment of 100 replicas until all are ready, and what the kubelet, containerd and the shims then use.
//
//	cd test && go test -run '^$' -bench HundredPods -benchtime 1x ./e2e
func BenchmarkHundredPods(b *testing.B) {
	for b.Loop() {
		hundredPods(b)
	}
}

const hundred = 100

func hundredPods(b *testing.B) {
	c := start(b, "--nodes", "0")
	kubelet := c.join("worker")
	began := time.Now()
	c.Kubectl("create", "deployment", "many", "--image=demo:1", "--replicas="+strconv.Itoa(hundred))
	eventually.Nil(b, "all pods are ready", func() error {
		list, err := c.Client().AppsV1().Deployments("default").List(b.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil || len(list.Items) != 1 || list.Items[0].Status.ReadyReplicas != hundred {
			return fmt.Errorf("%+v, %v", list.Items, err)
		}
		return nil
	})
	b.ReportMetric(time.Since(began).Seconds(), "ready-s")
	b.ReportMetric(residentMB(b, kubelet.Process.Pid), "kubelet-RSS-MB")
	before := cpuSeconds(b, kubelet.Process.Pid)
	const window = 20 * time.Second
	<-time.After(window)
	b.ReportMetric((cpuSeconds(b, kubelet.Process.Pid)-before)/window.Seconds()*100, "kubelet-idle-%cpu")
	b.ReportMetric(residentMB(b, kubelet.Process.Pid), "kubelet-idle-RSS-MB")
	for _, name := range []string{"containerd", "containerd-shim"} {
		sum, count := 0.0, 0
		for _, pid := range processes(b, name) {
			sum += residentMB(b, pid)
			count++
		}
		b.ReportMetric(sum/float64(max(1, count)), name+"-RSS-MB")
	}
	began = time.Now()
	c.Kubectl("delete", "deployment", "many", "--grace-period=1")
	eventually.Nil(b, "all pods are gone", func() error {
		pods, err := c.Client().CoreV1().Pods("default").List(b.Context(), metav1.ListOptions{ResourceVersion: "0"})
		if err != nil || len(pods.Items) > 0 {
			return fmt.Errorf("%d pods, %v", len(pods.Items), err)
		}
		return nil
	})
	b.ReportMetric(time.Since(began).Seconds(), "gone-s")
}

// join starts `vigil kubelet` as a node of the cluster that has a token and nothing else, and waits until it is ready.
func (c *cluster) join(name string, args ...string) *exec.Cmd {
	c.T.Helper()
	bootstrap := filepath.Join(c.T.TempDir(), "bootstrap.conf")
	if out, err := exec.Command(built.Program(c.T), "token", "create", "--data-dir", c.DataDir, "--kubeconfig", bootstrap).CombinedOutput(); err != nil {
		c.T.Fatalf("vigil token create: %v\n%s", err, out)
	}
	dir := filepath.Join(c.DataDir, "nodes", name)
	cmd := exec.Command(built.Program(c.T), append([]string{"kubelet", "--hostname-override", name, "--bootstrap-kubeconfig", bootstrap,
		"--kubeconfig", filepath.Join(dir, "kubelet.conf"), "--data-dir", c.DataDir, "--runtime", "containerd", "--runtime-dir", built.RuntimeDir(c.T), "--eviction-hard", "memory.available<50Mi"}, args...)...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		late := time.AfterFunc(eventually.Limit, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		if !late.Stop() {
			c.T.Errorf("the kubelet of %s did not end in %v", name, eventually.Limit)
		}
		if c.T.Failed() {
			c.T.Logf("output of the kubelet of %s:\n%s", name, output.String())
		}
	})
	eventually.Nil(c.T, "node "+name+" is ready", func() error {
		node, err := c.Client().CoreV1().Nodes().Get(c.T.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", node.Status.Conditions)
	})
	return cmd
}

// processes finds processes by the name of their program.
func processes(t testing.TB, name string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		comm, err := os.ReadFile(file)
		if err != nil || strings.TrimSpace(string(comm)) != name {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// residentMB is the resident memory of a process, in MB.
func residentMB(t testing.TB, pid int) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "VmRSS:" {
			kb, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return float64(kb) / 1024
		}
	}
	t.Fatalf("process %d has no memory", pid)
	return 0
}

// cpuSeconds is the processor time that a process has used.
func cpuSeconds(t testing.TB, pid int) float64 {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		t.Fatal(err)
	}
	system, err := strconv.Atoi(fields[12])
	if err != nil {
		t.Fatal(err)
	}
	return float64(user+system) / 100
}
