package cri

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/panics"
	"vigil/kubelet"
)

// parallelAsks bounds how many sandboxes and containers a relist asks for at once.
const parallelAsks = 8

// refresh asks for all of one pod.
func (r *Runtime) refresh(ctx context.Context, uid types.UID) error {
	doubts := r.cache.doubtsOf(uid)
	if _, err := r.list(ctx, uid); err != nil {
		return err
	}
	r.cache.settle(uid, doubts)
	return nil
}

// relist asks for all that is not as it was known, and returns the pods that have changed.
func (r *Runtime) relist(ctx context.Context) (changed map[types.UID]struct{}, err error) {
	before := r.cache.known("")
	changed, err = r.list(ctx, "")
	if err != nil {
		return changed, err
	}
	r.cache.settleAll(before)
	return changed, nil
}

// list compares what the runtime lists, of one pod or of all with uid "", with what is known, and asks for what differs.
func (r *Runtime) list(ctx context.Context, uid types.UID) (changed map[types.UID]struct{}, err error) {
	prefix, err := r.prefix(ctx)
	if err != nil {
		return nil, err
	}
	before := r.cache.known(uid)
	var selector map[string]string
	if uid != "" {
		selector = map[string]string{podUIDLabel: string(uid)}
	}
	sandboxes, err := r.client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{LabelSelector: selector}})
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	containers, err := r.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{LabelSelector: selector}})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}

	news := news{pods: map[types.UID]struct{}{}}
	asks, askCtx := errgroup.WithContext(ctx)
	asks.SetLimit(parallelAsks)
	listed := make(map[string]struct{}, len(sandboxes.Items)+len(containers.Containers))
	for _, s := range sandboxes.Items {
		listed[s.Id] = struct{}{}
		old, owner := before.sandboxes[s.Id], types.UID(s.Labels[podUIDLabel])
		if owner == "" || old == nil && r.cache.isStarting(owner) || old != nil && old.live == (s.State == runtimeapi.PodSandboxState_SANDBOX_READY) {
			continue
		}
		asks.Go(func() error {
			fresh, err := panics.Call(r.logger, panics.Node, func() (bool, error) { return r.askSandbox(askCtx, prefix, s.Id, nil) })
			if fresh {
				news.add(owner)
			}
			return err
		})
	}
	for _, c := range containers.Containers {
		listed[c.Id] = struct{}{}
		old, owner := before.containers[c.Id], types.UID(c.Labels[podUIDLabel])
		if owner == "" || old != nil && old.State == toState(c.State) && c.State != runtimeapi.ContainerState_CONTAINER_UNKNOWN {
			continue
		}
		asks.Go(func() error {
			fresh, err := panics.Call(r.logger, panics.Node, func() (bool, error) { return r.askContainer(askCtx, prefix, c.PodSandboxId, c.Id) })
			if fresh {
				news.add(owner)
			}
			return err
		})
	}
	err = asks.Wait()
	// What was known before the lists and is not in them has gone. What has come since is not in them either.
	for id := range before.containers {
		r.forget(id, listed, &news)
	}
	for id := range before.sandboxes {
		r.forget(id, listed, &news)
	}
	return news.pods, err
}

func (r *Runtime) forget(id string, listed map[string]struct{}, news *news) {
	if _, there := listed[id]; there {
		return
	}
	if uid, known := r.cache.remove(id); known {
		news.add(uid)
	}
}

// news collects the pods that have changed.
type news struct {
	mu   sync.Mutex
	pods map[types.UID]struct{}
}

func (n *news) add(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods[uid] = struct{}{}
}

func toState(state runtimeapi.ContainerState) kubelet.ContainerState {
	switch state {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return kubelet.ContainerCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return kubelet.ContainerRunning
	}
	return kubelet.ContainerExited
}

// askSandbox asks for a sandbox and merges the answer. One that has gone meanwhile is no error. options are those it was made with, if known.
func (r *Runtime) askSandbox(ctx context.Context, prefix, id string, options *kubelet.SandboxOptions) (changed bool, err error) {
	answer, err := r.client.PodSandboxStatus(ctx, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: true})
	if status.Code(err) == codes.NotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("ask for sandbox %s: %w", id, err)
	}
	seen := toSandbox(prefix, answer.Status)
	seen.NetNS, seen.options = netns(answer.Info), options
	labels := answer.Status.Labels
	return r.cache.mergeSandbox(types.UID(labels[podUIDLabel]), labels[podNamespaceLabel], labels[podNameLabel], seen), nil
}

// askContainer asks for a container and merges the answer. One that has gone meanwhile is no error. A container that the runtime
// has lost sight of is killed, so that it ends for sure.
func (r *Runtime) askContainer(ctx context.Context, prefix, sandbox, id string) (changed bool, err error) {
	for attempt := 0; ; attempt++ {
		answer, err := r.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
		if status.Code(err) == codes.NotFound {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("ask for container %s: %w", id, err)
		}
		s := answer.Status
		if s.State == runtimeapi.ContainerState_CONTAINER_UNKNOWN && attempt == 0 {
			if _, err := r.client.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: id}); err != nil {
				return false, fmt.Errorf("kill container %s, whose state is unknown: %w", id, err)
			}
			continue
		}
		return r.cache.mergeContainer(types.UID(s.Labels[podUIDLabel]), r.toContainer(prefix, sandbox, s), true), nil
	}
}
