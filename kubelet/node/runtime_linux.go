package node

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet/containerd"
	"vigil/kubelet/cri"
	"vigil/kubelet/machine"
)

// runtimePatience is how long a runtime that is not ours may take until it answers: both may have been started at once.
const runtimePatience = 30 * time.Second

// startRuntime has a container runtime that answers. Images that come with it are there before the first pod.
func (n *Node) startRuntime(ctx context.Context) error {
	n.endpoint = n.config.RuntimeEndpoint
	if n.endpoint == "" {
		daemon := containerd.Config{BinDir: n.config.RuntimeDir, RootDir: filepath.Join(n.config.NodeDir, "containerd"), Logger: n.log}
		if n.config.Registries != "" {
			registries, err := containerd.ReadRegistries(n.config.Registries)
			if err != nil {
				return err
			}
			daemon.Registries = registries
		}
		var err error
		if n.daemon, err = containerd.New(daemon); err != nil {
			return err
		}
		if err := n.daemon.Start(ctx); err != nil {
			return err
		}
		if err := n.daemon.Load(ctx); err != nil {
			return err
		}
		n.parts = append(n.parts, part{"containerd", n.daemon.Run})
		n.endpoint, n.config.CNIConfDir = n.daemon.Endpoint(), n.daemon.CNIConfDir()
	}
	memory, err := machine.Memory()
	if err != nil {
		return err
	}
	noSeccomp := n.daemon != nil && !n.daemon.Seccomp(ctx)
	if noSeccomp {
		n.log.Warn("runc was built without libseccomp; containers that want the seccomp profile RuntimeDefault are not started: the guide says how to build it in")
	}
	config, err := n.config.Images.complete(cri.Config{
		Endpoint: n.endpoint, ImageEndpoint: n.config.ImageEndpoint, RootDir: n.config.RootDir, LogDir: n.config.PodLogDir,
		NoSeccomp: noSeccomp, MemoryCapacity: int64(memory), NoCPUQuota: n.config.NoCPUQuota, SeccompDefault: n.config.SeccompDefault, SerializeImagePulls: n.config.SerialPulls, RequestTimeout: n.config.RequestTimeout,
		Registerer: n.registry, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.runtime, err = cri.New(config)
	return err
}

// checkRuntime waits until the runtime answers, and says whether it makes cgroups where the kubelet looks for them.
func (n *Node) checkRuntime(ctx context.Context) error {
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
