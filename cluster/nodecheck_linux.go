package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimePatience is how long a runtime that is not ours may take until it answers: both may have been started at once.
const runtimePatience = 30 * time.Second

// checkMachine says what on the machine is not as was asked for.
func (n *realNode) checkMachine(context.Context) error {
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

// checkRuntime waits until the runtime answers, and says whether it makes cgroups where the kubelet looks for them.
func (n *realNode) checkRuntime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, runtimePatience)
	defer cancel()
	for told := false; ; {
		name, version, err := n.runtime.Version(ctx)
		if err == nil {
			n.log.Info("the container runtime answers", "node", n.name, "runtime", name, "version", version, "endpoint", n.endpoint)
			break
		}
		if !told {
			n.log.Warn("the container runtime does not answer; the kubelet waits for it", "node", n.name, "endpoint", n.endpoint, "error", err)
			told = true
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("no container runtime answers at %s: start it, or name another with --container-runtime-endpoint: %w", n.endpoint, err)
		case <-time.After(time.Second):
		}
	}
	answer, err := n.runtime.Client().RuntimeConfig(ctx, &runtimeapi.RuntimeConfigRequest{})
	if status.Code(err) == codes.Unimplemented {
		return nil // an old one, which takes what it is given
	}
	if err != nil {
		return fmt.Errorf("ask the container runtime for its configuration: %w", err)
	}
	if linux := answer.GetLinux(); linux != nil && linux.GetCgroupDriver() == runtimeapi.CgroupDriver_SYSTEMD {
		return fmt.Errorf("the container runtime at %s makes cgroups through systemd, this kubelet makes them itself: configure the runtime for cgroupfs "+
			"(containerd: SystemdCgroup = false; CRI-O: cgroup_manager = \"cgroupfs\")", n.endpoint)
	}
	return nil
}
