package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/eventually"
	"vigil/kubelet/containerd"
	"vigil/test/harness"
)

// pods of TestDeaths: one with two containers, a sidecar, a volume in memory and tokens, and one that has been restarted before.
const survivors = `
apiVersion: v1
kind: Pod
metadata: {name: steady}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: m, emptyDir: {medium: Memory}}]
  initContainers: [{name: side, image: "demo:1", restartPolicy: Always, args: [sleep, "100000"]}]
  containers:
  - {name: web, image: "demo:1", volumeMounts: [{name: m, mountPath: /m}], readinessProbe: {httpGet: {path: /readyz, port: 8080}, periodSeconds: 1}, ports: [{containerPort: 8080, hostPort: 18080}]}
  - {name: idle, image: "demo:1", args: [sleep, "100000"]}
---
`

// life is what must not change while containers run: by container, its ID, process and restarts.
type life map[string]string

func (c *cluster) life(pods ...string) life {
	c.T.Helper()
	all := life{}
	for _, name := range pods {
		pod := c.pod(name)
		for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
			for _, status := range list {
				all[name+"/"+status.Name] = fmt.Sprintf("%s, process %d, %d restarts, started at %v", status.ContainerID, c.process(pod, status.Name), status.RestartCount, status.State.Running)
			}
		}
	}
	return all
}

// same complains when containers have not lived on.
func (c *cluster) same(when string, want, got life) {
	c.T.Helper()
	for name := range want {
		if want[name] != got[name] {
			c.T.Errorf("%s container %s was %s, is %s", when, name, want[name], got[name])
		}
	}
}

// TestDeaths kills one part of a node after another, and then all at once.
func TestDeaths(t *testing.T) {
	c := start(t)
	c.apply(survivors + manifest("restarted", `containers: [{name: c, image: "demo:1", livenessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1, failureThreshold: 1}}]`) +
		manifest("doomed", `containers: [{name: c, image: "demo:1"}]`) + manifest("finished", `restartPolicy: Never, containers: [{name: c, image: "demo:1", args: [exit, "0"]}]`))
	c.running("steady")
	c.running("restarted")
	c.running("doomed")
	c.demo("steady", "write", "/m/note", "remember")
	c.demo("restarted", "fetch", "http://127.0.0.1:8080/healthz?set=fail")
	c.untilPod("restarted", "restarted", func(p *corev1.Pod) bool { return container(p, "c").RestartCount == 1 && isReady(p) })
	c.untilPod("finished", "phase Succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	lived := c.life("steady", "restarted")

	t.Run("vigil is killed", func(t *testing.T) {
		c := &cluster{c.For(t, c.Namespace)}
		doomed := c.process(c.pod("doomed"), "c")
		address := c.pod("steady").Status.PodIP
		c.Kubectl("delete", "pod", "doomed", "--wait=false", "--grace-period=2")
		c.Kill()
		if page, err := get("http://" + address + ":8080/file?path=/m/note"); err != nil || page != "remember\n" {
			t.Errorf("while nobody looks after it, the pod answers %q, %v", page, err)
		}
		c.Up()
		eventually.Nil(c.T, "the deleted pod is gone", func() error {
			if out := c.Kubectl("get", "pod", "doomed", "--ignore-not-found", "-o", "name"); out != "" {
				return errors.New(out)
			}
			return nil
		})
		if err := syscall.Kill(doomed, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d of the deleted pod: %v", doomed, err)
		}
		c.running("steady")
		c.running("restarted")
		c.same("after a restart of Vigil", lived, c.life("steady", "restarted"))
		c.works("after-vigil")
	})

	t.Run("a container dies while vigil is dead", func(t *testing.T) {
		c := &cluster{c.For(t, c.Namespace)}
		victim := c.process(c.pod("restarted"), "c")
		c.Kill()
		if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.Up()
		pod := c.untilPod("restarted", "restarted again", func(p *corev1.Pod) bool { return container(p, "c").RestartCount == 2 && isReady(p) })
		if last := container(pod, "c").LastTerminationState.Terminated; last == nil || last.ExitCode != 137 {
			t.Errorf("the container ended with %+v", last)
		}
	})

	t.Run("containerd is killed", func(t *testing.T) {
		c := &cluster{c.For(t, c.Namespace)}
		lived := c.life("steady", "restarted")
		pid := c.containerd()
		if pid == 0 {
			t.Fatal("no containerd runs")
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually.Nil(c.T, "another containerd answers", func() error {
			if now := c.containerd(); now == 0 || now == pid {
				return errors.New("there is none")
			}
			if _, err := containerd.Find(c.DataDir + "/nodes/node-1/containerd"); err != nil {
				return err
			}
			_, err := c.cri().Version(t.Context(), &runtimeapi.VersionRequest{})
			return err
		})
		c.works("after-containerd")
		c.same("after a restart of containerd", lived, c.life("steady", "restarted"))
		if out := c.demo("steady", "cat", "/m/note"); out != "remember\n" {
			t.Errorf("the pod's volume has %q", out)
		}
		if out := c.Kubectl("logs", "restarted"); !strings.Contains(out, "msg=serving") {
			t.Errorf("the pod's log has %q", out)
		}
	})

	t.Run("vigil is stopped", func(t *testing.T) {
		c := &cluster{c.For(t, c.Namespace)}
		lived := c.life("steady", "restarted")
		c.Stop()
		c.Up()
		c.running("steady")
		c.running("restarted")
		c.same("after a stop of Vigil", lived, c.life("steady", "restarted"))
		c.works("after-stop")
	})

	t.Run("pods start meanwhile", func(t *testing.T) {
		c := &cluster{c.For(t, c.Namespace)}
		c.Kubectl("create", "deployment", "many", "--image=demo:1", "--replicas=10")
		running := func(least int) {
			t.Helper()
			eventually.Nil(c.T, fmt.Sprintf("%d of the pods run", least), func() error {
				out := c.Kubectl("get", "pods", "-l", "app=many", "-o", "jsonpath={.items[*].status.phase}")
				if strings.Count(out, "Running") < least {
					return errors.New(out)
				}
				return nil
			})
		}
		running(1)
		c.Kill()
		c.Up()
		running(3)
		if err := syscall.Kill(c.containerd(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.Kubectl("rollout", "status", "deployment/many", harness.InTime)
		if out := c.Kubectl("get", "pods", "-l", "app=many", "-o", "name"); strings.Count(out, "\n") != 10 {
			t.Errorf("there are\n%s", out)
		}
		c.Kubectl("delete", "deployment", "many")
		c.Kubectl("delete", "pods", "-l", "app=many", "--grace-period=1", "--ignore-not-found")
		eventually.Nil(c.T, "the runtime has the pods of the API alone", c.noStrangers)
	})

	for restarts, cut := range []struct {
		name string
		boot bool
	}{{"everything is killed", false}, {"the power is cut", true}} {
		t.Run(cut.name, func(t *testing.T) {
			c := &cluster{c.For(t, c.Namespace)}
			before := c.pod("steady")
			c.Kubectl("create", "configmap", "kept"+strconv.Itoa(restarts), "--from-literal=written=last")
			c.cutPower()
			if cut.boot {
				c.boot()
			}
			c.Up()
			if out := c.Kubectl("get", "configmap", "kept"+strconv.Itoa(restarts), "-o", "jsonpath={.data.written}"); out != "last" {
				t.Errorf("what was written last is %q", out)
			}
			after := c.untilPod("steady", "started again", func(p *corev1.Pod) bool {
				return isReady(p) && container(p, "web").ContainerID != container(before, "web").ContainerID
			})
			for _, name := range []string{"web", "idle", "side"} {
				if count := container(after, name).RestartCount; after.UID != before.UID || int(count) != restarts+1 {
					t.Errorf("container %s was restarted %d times, want %d", name, count, restarts+1)
				}
			}
			c.untilPod("restarted", "started again", func(p *corev1.Pod) bool { return isReady(p) && int(container(p, "c").RestartCount) == 3+restarts })
			if pod := c.pod("finished"); pod.Status.Phase != corev1.PodSucceeded || container(pod, "c").RestartCount != 0 {
				t.Errorf("what had finished before is %+v", pod.Status)
			}
			eventually.Nil(c.T, "an answer at the host's port", func() error {
				page, err := get("http://" + after.Status.HostIP + ":18080/")
				if err == nil && !strings.Contains(page, "version: 1\n") {
					err = errors.New(page)
				}
				return err
			})
			c.works("after-cut-" + strconv.Itoa(restarts))
		})
	}
}

// noStrangers fails when the runtime has sandboxes of pods that are not in the API, or several that run of one.
func (c *cluster) noStrangers() error {
	sandboxes, err := c.cri().ListPodSandbox(c.T.Context(), &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return err
	}
	list, err := c.Client().CoreV1().Pods("").List(c.T.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	known := map[string]string{} // by UID, the sandbox that runs
	for i := range list.Items {
		known[string(list.Items[i].UID)] = ""
	}
	for _, sandbox := range sandboxes.Items {
		running, ok := known[sandbox.Metadata.Uid]
		if !ok {
			return fmt.Errorf("sandbox of %s: %v", sandbox.Metadata.Name, sandbox)
		}
		if sandbox.State == runtimeapi.PodSandboxState_SANDBOX_READY {
			if running != "" {
				return fmt.Errorf("pod %s has the sandboxes %s and %s", sandbox.Metadata.Name, running, sandbox.Id)
			}
			known[sandbox.Metadata.Uid] = sandbox.Id
		}
	}
	return nil
}

// works tries a new pod, which must run, answer, talk and go.
func (c *cluster) works(name string) {
	c.T.Helper()
	c.apply(manifest(name, `containers: [{name: c, image: "demo:2"}]`))
	c.running(name)
	if out := c.demo(name, "fetch", "http://127.0.0.1:8080/"); !strings.Contains(out, "version: 2\n") {
		c.T.Errorf("a new pod says %q", out)
	}
	if out := c.Kubectl("logs", name); !strings.Contains(out, "path=/ ") {
		c.T.Errorf("a new pod has the log %q", out)
	}
	c.Kubectl("delete", "pod", name)
}

// containerd is the process that has the cluster's directory on its command line; 0: there is none.
func (c *cluster) containerd() int {
	c.T.Helper()
	for _, pid := range processes(c.T, "containerd") {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && strings.Contains(string(line), c.DataDir) {
			return pid
		}
	}
	return 0
}

// cutPower kills all that runs here but the tests, until nothing is left: Vigil, containerd, shims, containers, and what runs for a moment only
// (runc while it starts a container, a plug-in of the network) and would go on to mount and unmount.
func (c *cluster) cutPower() {
	c.T.Helper()
	c.Kill()
	eventually.Nil(c.T, "everything is dead", func() error {
		left := strangers(c.T)
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL) // whether it has ended is looked at next
		}
		if len(left) > 0 {
			return fmt.Errorf("processes %v live", left)
		}
		return nil
	})
}

// strangers are the processes of this PID namespace that run another program than the tests'.
func strangers(t testing.TB) (pids []int) {
	t.Helper()
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range all {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == 1 {
			continue
		}
		// One that has ended and was not waited for has no program any more.
		if program, err := os.Readlink(filepath.Join(dir, "exe")); err == nil && program == own {
			continue
		}
		if _, err := os.Stat(dir); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// boot takes away what a machine has lost when it starts again: mounts, network namespaces, what is in /run, links of pods. An unmount takes
// away what is mounted below and, where mounts are shared, its copies: so it looks again after each.
func (c *cluster) boot() {
	c.T.Helper()
	for {
		mounts := c.mounts()
		if len(mounts) == 0 {
			break
		}
		last := mounts[len(mounts)-1]
		if err := syscall.Unmount(last, syscall.MNT_DETACH); err != nil {
			c.T.Fatalf("unmount %s: %v", last, err)
		}
	}
	for _, path := range append(c.state(), "/run/vigil") {
		if err := os.RemoveAll(path); err != nil {
			c.T.Fatal(err)
		}
	}
}

// mounts are those of the cluster's data directory, its container runtime and its pods' networks, in the order in which they were made.
func (c *cluster) mounts() (paths []string) {
	c.T.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		c.T.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		at := strings.Fields(line)[4]
		for _, prefix := range []string{c.DataDir + "/", "/run/netns/cni-", "/run/netns/vigil-", "/run/vigil/"} {
			if strings.HasPrefix(at, prefix) {
				paths = append(paths, at)
				break
			}
		}
	}
	return paths
}

// state are the files of clusters in /run.
func (c *cluster) state() []string {
	c.T.Helper()
	var all []string
	for _, pattern := range []string{"/run/netns/cni-*", "/run/netns/vigil-*", "/run/vigil/*"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			c.T.Fatal(err)
		}
		all = append(all, files...)
	}
	return all
}
