package simulated

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet"
)

// Runtime simulates the containers of one node.
type Runtime struct {
	ask func(ctx context.Context) (netip.Prefix, error) // says what network is; never changes

	mu      sync.Mutex
	network netip.Prefix // invalid: nobody has asked yet
	pods    map[types.UID]*pod
	ips     map[netip.Addr]struct{}
	last    netip.Addr
	changed map[types.UID]struct{} // pods that Follow has to tell of

	wake chan struct{} // holds one token when changed is not empty
}

type pod struct {
	namespace, name string

	sandbox    kubelet.Sandbox
	ip         netip.Addr   // invalid: the node's
	containers []*container // oldest first
}

type container struct {
	kubelet.Container
	pod  types.UID
	life time.Duration // once it has started
	code int32         // exit code after life
	end  *time.Timer   // nil when it runs for ever
}

// New makes a runtime whose pods get addresses of network, the node's pod CIDR.
func New(network netip.Prefix) *Runtime {
	return NewIn(func(context.Context) (netip.Prefix, error) { return network, nil })
}

// NewIn makes a runtime that asks for the network when the first pod needs an address, until it is told without an error. A node
// without pods asks nobody.
func NewIn(ask func(ctx context.Context) (netip.Prefix, error)) *Runtime {
	return &Runtime{
		ask:     ask,
		pods:    map[types.UID]*pod{},
		ips:     map[netip.Addr]struct{}{},
		changed: map[types.UID]struct{}{},
		wake:    make(chan struct{}, 1),
	}
}

// Version implements kubelet.Runtime.
func (r *Runtime) Version(context.Context) (name, version string, err error) {
	return "simulated", "1", nil
}

// Pod implements kubelet.Runtime.
func (r *Runtime) Pod(_ context.Context, uid types.UID) (*kubelet.Sandbox, []*kubelet.Container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pods[uid]
	if p == nil {
		return nil, nil, nil
	}
	sandbox := p.sandbox
	containers := make([]*kubelet.Container, 0, len(p.containers))
	for i := len(p.containers) - 1; i >= 0; i-- {
		c := p.containers[i].Container
		containers = append(containers, &c)
	}
	return &sandbox, containers, nil
}

// Pods implements kubelet.Runtime.
func (r *Runtime) Pods(context.Context) ([]kubelet.PodReference, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pods := make([]kubelet.PodReference, 0, len(r.pods))
	for uid, p := range r.pods {
		pods = append(pods, kubelet.PodReference{UID: uid, Namespace: p.namespace, Name: p.name})
	}
	return pods, nil
}

// RunSandbox implements kubelet.Runtime.
func (r *Runtime) RunSandbox(ctx context.Context, p *corev1.Pod, _ kubelet.SandboxOptions) (*kubelet.Sandbox, error) {
	if !p.Spec.HostNetwork {
		if err := r.findNetwork(ctx); err != nil {
			return nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	made := newPod(p)
	if !p.Spec.HostNetwork {
		ip, err := r.takeIP()
		if err != nil {
			return nil, err
		}
		made.ip, made.sandbox.IPs = ip, []string{ip.String()}
	}
	r.pods[p.UID] = made
	sandbox := made.sandbox
	return &sandbox, nil
}

// findNetwork asks for the network unless it is known.
func (r *Runtime) findNetwork(ctx context.Context) error {
	r.mu.Lock()
	known := r.network.IsValid()
	r.mu.Unlock()
	if known {
		return nil
	}
	network, err := r.ask(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.network.IsValid() { // nobody was faster
		r.network = network.Masked()
		r.last = r.network.Addr().Next() // .1 is the gateway's
	}
	return nil
}

func newPod(p *corev1.Pod) *pod {
	return &pod{namespace: p.Namespace, name: p.Name, sandbox: kubelet.Sandbox{ID: "simulated://" + uuid.NewString(), Ready: true, Created: time.Now()}}
}

// takeIP returns the next free address after the one given last.
func (r *Runtime) takeIP() (netip.Addr, error) {
	for at, tries := r.last.Next(), 0; tries < 1<<20; at, tries = at.Next(), tries+1 {
		if !r.network.Contains(at) {
			at = r.network.Addr().Next() // the gateway's, which the next step skips
			continue
		}
		if _, taken := r.ips[at]; !taken {
			r.ips[at], r.last = struct{}{}, at
			return at, nil
		}
		if at == r.last {
			break
		}
	}
	return netip.Addr{}, fmt.Errorf("no address is free in %s", r.network)
}

// StopSandbox implements kubelet.Runtime.
func (r *Runtime) StopSandbox(_ context.Context, uid types.UID) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pods[uid]
	if p == nil {
		return nil
	}
	for _, c := range p.containers {
		c.exit(137, "Error")
	}
	p.sandbox.Ready = false
	delete(r.ips, p.ip)
	return nil
}

// RemovePod implements kubelet.Runtime.
func (r *Runtime) RemovePod(ctx context.Context, uid types.UID) error {
	if err := r.StopSandbox(ctx, uid); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, uid)
	return nil
}

// EnsureImage implements kubelet.Runtime. Every image is there.
func (r *Runtime) EnsureImage(_ context.Context, request kubelet.ImageRequest) (kubelet.Image, error) {
	image := request.Container.Image
	name, _, _ := strings.Cut(image, "@")
	if at := strings.LastIndexByte(name, ':'); at > strings.LastIndexByte(name, '/') {
		name = name[:at]
	}
	if strings.HasSuffix(name, "/does-not-exist") {
		return kubelet.Image{}, &kubelet.ImageError{Reason: "ErrImagePull", Message: fmt.Sprintf("image %q does not exist", image)}
	}
	return kubelet.Image{ID: "simulated://" + image}, nil
}

// CreateContainer implements kubelet.Runtime.
func (r *Runtime) CreateContainer(_ context.Context, p *corev1.Pod, spec *corev1.Container, options kubelet.ContainerOptions) (id string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	in := r.pods[p.UID]
	if in == nil || !in.sandbox.Ready {
		return "", fmt.Errorf("pod %s/%s has no sandbox", p.Namespace, p.Name)
	}
	c := &container{pod: p.UID, Container: kubelet.Container{
		ID: "simulated://" + uuid.NewString(), Name: spec.Name, Requested: spec.Image, Image: spec.Image, ImageID: options.ImageID,
		Attempt: options.Attempt, Created: time.Now(),
	}}
	c.life, c.code = script(p, spec)
	in.keep(c)
	return c.ID, nil
}

// StartContainer implements kubelet.Runtime.
func (r *Runtime) StartContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.find(id)
	if c == nil || c.State != kubelet.ContainerCreated {
		return fmt.Errorf("container %s is not there to be started", id)
	}
	c.State, c.Started = kubelet.ContainerRunning, time.Now()
	if c.life != forever {
		c.end = time.AfterFunc(c.life, func() { r.end(c) })
	}
	return nil
}

// find finds a container; the caller holds the lock.
func (r *Runtime) find(id string) *container {
	for _, p := range r.pods {
		for _, c := range p.containers {
			if c.ID == id {
				return c
			}
		}
	}
	return nil
}

// keep adds a container and forgets all but the newest two of its name, as a runtime's garbage collection does.
func (p *pod) keep(c *container) {
	kept, same := p.containers[:0], 0
	for _, old := range p.containers {
		if old.Name == c.Name {
			same++
		}
	}
	for _, old := range p.containers {
		if old.Name == c.Name && same > 1 {
			same--
			continue
		}
		kept = append(kept, old)
	}
	clear(p.containers[len(kept):])
	p.containers = append(kept, c)
}

func (r *Runtime) end(c *container) {
	r.mu.Lock()
	reason := "Completed"
	if c.code != 0 {
		reason = "Error"
	}
	c.exit(c.code, reason)
	r.changed[c.pod] = struct{}{}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// exit ends a container that runs; the caller holds the runtime's lock.
func (c *container) exit(code int32, reason string) {
	if c.State != kubelet.ContainerRunning {
		return
	}
	if c.end != nil {
		c.end.Stop()
	}
	c.State, c.Finished, c.ExitCode, c.Reason = kubelet.ContainerExited, time.Now(), code, reason
}

// StopContainer implements kubelet.Runtime. A simulated container ends at once when it is asked to.
func (r *Runtime) StopContainer(_ context.Context, id string, _ time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.find(id); c != nil {
		c.exit(0, "Completed")
	}
	return nil
}

// RemoveContainer implements kubelet.Runtime.
func (r *Runtime) RemoveContainer(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pods {
		p.containers = slices.DeleteFunc(p.containers, func(c *container) bool { return c.ID == id && c.State != kubelet.ContainerRunning })
	}
	return nil
}

// ResizeContainer implements kubelet.Runtime.
func (r *Runtime) ResizeContainer(_ context.Context, _ *corev1.Pod, spec *corev1.Container, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.find(id); c != nil {
		c.Resources = spec.Resources.DeepCopy()
	}
	return nil
}

// Exec implements kubelet.Runtime. Every command succeeds and prints nothing.
func (r *Runtime) Exec(_ context.Context, id string, _ []string, _ time.Duration, _ int) (output []byte, exitCode int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.find(id); c == nil || c.State != kubelet.ContainerRunning {
		return nil, 0, fmt.Errorf("container %s does not run", id)
	}
	return nil, 0, nil
}

// Ready implements kubelet.Runtime.
func (r *Runtime) Ready(context.Context) error { return nil }

// Collect implements kubelet.Runtime. Ended containers go when others take their place, pods with RemovePod.
func (r *Runtime) Collect(context.Context, func(types.UID) bool) error { return nil }

// Follow implements kubelet.Runtime.
func (r *Runtime) Follow(ctx context.Context, changed func(types.UID)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		}
		r.mu.Lock()
		uids := slices.Collect(maps.Keys(r.changed))
		clear(r.changed)
		r.mu.Unlock()
		for _, uid := range uids {
			changed(uid)
		}
	}
}

// Restore implements kubelet.Restorer: containers that were reported running run on.
func (r *Runtime) Restore(p *corev1.Pod) {
	if p.Status.PodIP == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return
	}
	restored := newPod(p)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pods[p.UID] != nil {
		return
	}
	if !p.Spec.HostNetwork {
		ip, err := netip.ParseAddr(p.Status.PodIP)
		if _, taken := r.ips[ip]; err != nil || taken {
			return
		}
		restored.ip, restored.sandbox.IPs = ip, []string{p.Status.PodIP}
		r.ips[ip] = struct{}{}
	}
	r.pods[p.UID] = restored
	restore := func(specs []corev1.Container, statuses []corev1.ContainerStatus) {
		for i := range specs {
			for j := range statuses {
				if statuses[j].Name == specs[i].Name {
					r.restoreContainer(p, restored, &specs[i], &statuses[j])
				}
			}
		}
	}
	restore(p.Spec.InitContainers, p.Status.InitContainerStatuses)
	restore(p.Spec.Containers, p.Status.ContainerStatuses)
}

func (r *Runtime) restoreContainer(p *corev1.Pod, in *pod, spec *corev1.Container, status *corev1.ContainerStatus) {
	c := &container{pod: p.UID, Container: kubelet.Container{
		ID: status.ContainerID, Name: status.Name, Requested: spec.Image, Image: status.Image, ImageID: status.ImageID, Attempt: status.RestartCount,
	}}
	c.life, c.code = script(p, spec)
	ended := status.State.Terminated
	if ended == nil && status.State.Waiting != nil {
		ended = status.LastTerminationState.Terminated // in CrashLoopBackOff
	}
	switch {
	case status.State.Running != nil:
		c.State, c.Started = kubelet.ContainerRunning, status.State.Running.StartedAt.Time
		if c.life != forever {
			c.end = time.AfterFunc(c.life-time.Since(c.Started), func() { r.end(c) })
		}
	case ended != nil:
		c.State, c.Started, c.Finished = kubelet.ContainerExited, ended.StartedAt.Time, ended.FinishedAt.Time
		c.ExitCode, c.Reason, c.Message = ended.ExitCode, ended.Reason, ended.Message
	default:
		return
	}
	in.containers = append(in.containers, c)
}
