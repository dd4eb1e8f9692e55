package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/cgroups"
	"vigil/kubelet/eviction"
	"vigil/kubelet/machine"
)

// checkMachine says what on the machine is not as was asked for.
func (n *Node) checkMachine(context.Context) error {
	if !n.config.FailSwapOn {
		return nil
	}
	text, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return fmt.Errorf("look for swap: %w", err)
	}
	if strings.Count(strings.TrimSpace(string(text)), "\n") > 0 { // the first line is a heading
		return errors.New("running with swap on is not supported, please disable swap or set --fail-swap-on flag to false")
	}
	return nil
}

// makeDirs makes the directories of the node.
func (n *Node) makeDirs(context.Context) error {
	for _, dir := range []string{n.config.NodeDir, n.config.RootDir, filepath.Join(n.config.RootDir, "pods"), n.config.PodLogDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return os.MkdirAll(n.checkpointDir(), 0o700) // what is in memory is nobody else's business
}

func (n *Node) checkpointDir() string { return filepath.Join(n.config.RootDir, "checkpoints") }

// measureMachine finds out what the machine has, what of it pods may have, and makes the cgroups that see to that.
func (n *Node) measureMachine(context.Context) error {
	var reserved machine.Reserved
	var err error
	if reserved.System, err = machine.ParseReserved(n.config.SystemReserved); err != nil {
		return fmt.Errorf("--system-reserved: %w", err)
	}
	if reserved.Kube, err = machine.ParseReserved(n.config.KubeReserved); err != nil {
		return fmt.Errorf("--kube-reserved: %w", err)
	}
	if n.thresholds, err = eviction.Parse(n.config.Eviction); err != nil {
		return err
	}
	if n.capacity, err = machine.Capacity(machine.Config{RootDir: n.config.RootDir, MaxPods: n.config.MaxPods, PodsPerCore: n.config.PodsPerCore}); err != nil {
		return err
	}
	reserved.Eviction = eviction.Reservation(n.thresholds, n.capacity)
	if err := machine.Check(n.capacity, reserved); err != nil {
		return err
	}
	if n.config.NoStorageLimits {
		delete(n.capacity, corev1.ResourceEphemeralStorage)
	}
	n.allocatable = machine.Allocatable(n.capacity, reserved)
	if n.cgroups, err = cgroups.New(cgroups.Config{Root: n.config.CgroupRoot, PodPidsLimit: n.config.PodPidsLimit, NoCPUCFSQuota: n.config.NoCPUQuota}); err != nil {
		return err
	}
	if n.config.Eviction.NoPodsEnforced {
		reserved = machine.Reserved{}
	}
	if err := n.cgroups.Setup(machine.Enforced(n.capacity, reserved)); err != nil {
		return err
	}
	node := &corev1.ObjectReference{Kind: "Node", Name: n.name, UID: types.UID(n.name)}
	n.recorder.Event(node, corev1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
	return nil
}
