package stats

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet/cgroups"
)

// Labels of containers and sandboxes, upstream's.
const (
	podUIDLabel        = "io.kubernetes.pod.uid"
	containerNameLabel = "io.kubernetes.container.name"
)

// measurePods measures the pods that run.
func (p *Provider) measurePods(ctx context.Context) ([]podSample, error) {
	containers, err := p.config.Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	sandboxes, err := p.config.Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	}})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	running := map[types.UID][]*runtimeapi.Container{}
	for _, c := range containers.Containers {
		uid := types.UID(c.Labels[podUIDLabel])
		running[uid] = append(running[uid], c)
	}
	sandbox := map[types.UID]*runtimeapi.PodSandbox{}
	for _, s := range sandboxes.Items {
		if old := sandbox[types.UID(s.Labels[podUIDLabel])]; old == nil || old.CreatedAt < s.CreatedAt {
			sandbox[types.UID(s.Labels[podUIDLabel])] = s
		}
	}
	asked := &askedRuntime{runtime: p.config.Runtime}
	pods := p.config.Pods()
	samples := make([]podSample, 0, len(pods))
	uncounted := false
	for _, pod := range pods {
		s := sandbox[pod.UID]
		if s == nil && len(running[pod.UID]) == 0 {
			continue
		}
		one := p.measurePod(ctx, pod, s, running[pod.UID], asked)
		uncounted = uncounted || one.disk == nil && !one.counting
		samples = append(samples, one)
	}
	if uncounted {
		select {
		case p.counts <- struct{}{}:
		default:
		}
	}
	return samples, nil
}

func (p *Provider) measurePod(ctx context.Context, pod *corev1.Pod, sandbox *runtimeapi.PodSandbox, running []*runtimeapi.Container, asked *askedRuntime) podSample {
	group := p.config.Groups.Path(pod)
	s := podSample{pod: pod}
	s.measured, _ = p.usage(group) // what has gone meanwhile has no figures
	p.mu.Lock()
	s.disk, s.counting = p.disks[pod.UID], p.counting[pod.UID] != nil
	p.mu.Unlock()
	switch {
	case sandbox != nil:
		s.started = time.Unix(0, sandbox.CreatedAt)
	case pod.Status.StartTime != nil:
		s.started = pod.Status.StartTime.Time
	}
	for _, c := range running {
		s.containers = append(s.containers, p.measureContainer(ctx, pod, group, c, s.disk, asked))
	}
	slices.SortFunc(s.containers, func(a, b containerSample) int { return strings.Compare(a.name, b.name) })
	if sandbox != nil && !pod.Spec.HostNetwork {
		s.network = p.sandboxNetwork(group, sandbox.Id, s.containers)
	}
	return s
}

func (p *Provider) measureContainer(ctx context.Context, pod *corev1.Pod, group string, c *runtimeapi.Container, disk *podDisk, asked *askedRuntime) containerSample {
	s := containerSample{name: c.Labels[containerNameLabel], id: c.Id, image: c.Image.GetUserSpecifiedImage(), started: time.Unix(0, c.CreatedAt)}
	s.spec = containerSpec(pod, s.name)
	if s.spec != nil {
		s.image = s.spec.Image
	}
	if disk != nil {
		if counted, ok := disk.layers[c.Id]; ok {
			s.layer = &counted
		}
		if counted, ok := disk.logs[s.name]; ok {
			s.logs = &counted
		}
	}
	for _, name := range []string{c.Id, "crio-" + c.Id} {
		m, err := p.usage(path.Join(group, name))
		if err == nil {
			s.measured = m
			return s
		}
	}
	if stats := asked.container(ctx, c.Id); stats != nil {
		s.measured = p.fromRuntime(path.Join(group, c.Id), stats)
	}
	return s
}

func containerSpec(pod *corev1.Pod, name string) *corev1.Container {
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i]
			}
		}
	}
	return nil
}

// askedRuntime asks for the figures of all containers once, if they are needed.
type askedRuntime struct {
	runtime Runtime
	stats   map[string]*runtimeapi.ContainerStats // by ID; nil: not asked
}

func (a *askedRuntime) container(ctx context.Context, id string) *runtimeapi.ContainerStats {
	if a.stats == nil {
		a.stats = map[string]*runtimeapi.ContainerStats{}
		if answer, err := a.runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{}); err == nil {
			for _, s := range answer.Stats {
				a.stats[s.Attributes.GetId()] = s
			}
		}
	}
	return a.stats[id]
}

// fromRuntime reads figures of the runtime.
func (p *Provider) fromRuntime(group string, stats *runtimeapi.ContainerStats) measured {
	m := measured{Usage: cgroups.Usage{Time: time.Now()}, group: group}
	if cpu := stats.Cpu; cpu != nil && cpu.UsageCoreNanoSeconds != nil {
		m.CPU, m.HasCPU = time.Duration(cpu.UsageCoreNanoSeconds.Value), true
		m.nanoCore = p.rates.observe(group, m.Time, m.CPU)
	}
	if memory := stats.Memory; memory != nil {
		m.HasMemory = memory.WorkingSetBytes != nil
		m.Memory, m.WorkingSet, m.RSS = memory.UsageBytes.GetValue(), memory.WorkingSetBytes.GetValue(), memory.RssBytes.GetValue()
		m.PageFaults, m.MajorPageFaults = memory.PageFaults.GetValue(), memory.MajorPageFaults.GetValue()
	}
	if stats.Swap != nil {
		m.Swap = stats.Swap.SwapUsageBytes.GetValue()
	}
	return m
}
