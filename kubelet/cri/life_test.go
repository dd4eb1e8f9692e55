package cri

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet"
)

// A pod with three containers is started, looked into, stopped and removed.
func TestLife(t *testing.T) {
	n := startNode(t, nil)
	pod := newPod("web", []string{"serve"}, []string{"sleep", "1000"}, []string{"exit", "3"})
	ids := n.run(pod)

	containers := n.await(pod.UID, "the third container has exited", func(_ *kubelet.Sandbox, c []*kubelet.Container) bool {
		last := stateOf(c, ids[2])
		return last != nil && last.State == kubelet.ContainerExited
	})
	sandbox, _, err := n.Pod(n.context(), pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	if !sandbox.Ready || len(sandbox.IPs) != 1 || !strings.HasPrefix(sandbox.IPs[0], "10.88.") || !strings.HasPrefix(sandbox.ID, "containerd://") || sandbox.NetNS == "" {
		t.Errorf("sandbox is %+v", sandbox)
	}
	if c := stateOf(containers, ids[2]); c.ExitCode != 3 || c.Reason != "Error" || c.Finished.IsZero() || c.Name != "c2" || c.SandboxID != sandbox.ID {
		t.Errorf("the container that exits is %+v", c)
	}
	web := stateOf(containers, ids[0])
	if web.State != kubelet.ContainerRunning || web.Requested != "demo:1" || web.ImageID == "" || web.Started.IsZero() || web.User == nil {
		t.Errorf("the web server is %+v", web)
	}
	log := filepath.Join(n.config.LogDir, "default_web_"+string(pod.UID), "c0", "0.log")
	if web.LogPath != log {
		t.Errorf("its log is %s, not %s", web.LogPath, log)
	}
	if _, err := os.Stat(log); err != nil {
		t.Error(err)
	}

	link := filepath.Join(filepath.Dir(n.config.LogDir), "containers", "web_default_c0-"+bare(ids[0])+".log")
	if target, err := os.Readlink(link); err != nil || target != log {
		t.Errorf("the link to the log: %s, %v", target, err)
	}

	output, code, err := n.Exec(n.context(), ids[0], []string{"demo", "hostname"}, time.Minute, 3)
	if err != nil || code != 0 || string(bytes.TrimSpace(output)) != "web" {
		t.Errorf("hostname: %q, %d, %v", output, code, err)
	}
	if _, code, err = n.Exec(n.context(), ids[0], []string{"demo", "exit", "7"}, 0, 0); err != nil || code != 7 {
		t.Errorf("exit 7: %d, %v", code, err)
	}
	if _, _, err = n.Exec(n.context(), ids[0], []string{"demo", "sleep", "100"}, time.Second, 0); !errors.Is(err, kubelet.ErrExecTimeout) {
		t.Errorf("an exec that takes too long: %v", err)
	}

	if err := n.StopContainer(n.context(), ids[1], 30*time.Second); err != nil {
		t.Fatal(err)
	}
	_, containers, err = n.Pod(n.context(), pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	if c := stateOf(containers, ids[1]); c.State != kubelet.ContainerExited {
		t.Errorf("the container that was stopped is %+v", c)
	}
	if err := n.StopSandbox(n.context(), pod.UID); err != nil {
		t.Fatal(err)
	}
	sandbox, containers, err = n.Pod(n.context(), pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	if sandbox.Ready || stateOf(containers, ids[0]).State != kubelet.ContainerExited {
		t.Errorf("after StopSandbox: %+v, %+v", sandbox, stateOf(containers, ids[0]))
	}
	for range 2 { // removing what is not there is no error
		if err := n.RemovePod(n.context(), pod.UID); err != nil {
			t.Fatal(err)
		}
	}
	if sandbox, containers, err = n.Pod(n.context(), pod.UID); err != nil || sandbox != nil || len(containers) > 0 {
		t.Errorf("after RemovePod: %+v, %v, %v", sandbox, containers, err)
	}
	if _, err := os.Stat(filepath.Dir(filepath.Dir(log))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("logs are still there: %v", err)
	}
	if err := n.Collect(n.context(), func(types.UID) bool { return true }); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(link); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link to the log is still there: %v", err)
	}
}

// A sandbox that has been stopped is not stopped again before it is removed: that would call the network's plug-ins once more.
func TestRemovePod_AfterItsSandboxHasStopped(t *testing.T) {
	registry := prometheus.NewRegistry()
	n := startNode(t, func(c *Config) { c.Registerer = registry })
	stops := func() float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, m := range family.Metric {
				if family.GetName() == "kubelet_runtime_operations_total" && m.Label[0].GetValue() == "stop_podsandbox" {
					return m.Counter.GetValue()
				}
			}
		}
		return 0
	}
	for _, stopped := range []bool{true, false} {
		pod := newPod("web", []string{"serve"})
		n.run(pod)
		before := stops()
		if stopped {
			if err := n.StopSandbox(n.context(), pod.UID); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.RemovePod(n.context(), pod.UID); err != nil {
			t.Fatal(err)
		}
		if sandbox, _, err := n.Pod(n.context(), pod.UID); err != nil || sandbox != nil || stops() != before+1 {
			t.Errorf("stopped before: %v; then %+v, %v, stopped %v times", stopped, sandbox, err, stops()-before)
		}
	}
}
