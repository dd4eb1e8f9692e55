package kubelet

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/internal/panics"
)

// housekeepingPeriod is how often the node is searched for what belongs to no pod (upstream: 2 s for pods, a minute for containers).
const housekeepingPeriod = time.Minute

// housekeep ends and takes away what the node has of pods that are not its pods any more: at once when the API server has told
// which those are, and again every housekeepingPeriod on nodes with real containers.
func (k *Kubelet) housekeep(ctx context.Context) {
	if k.pods.WaitForSync(ctx) != nil {
		return
	}
	if k.config.StaticPodPath != "" {
		if !k.waitForManifests(ctx) {
			return
		}
		k.lookAtAll() // now static pods can be shown
	}
	for {
		k.round.Store(time.Now().UnixNano())
		panics.Do(k.config.Logger, panics.Node, func() {
			k.removeOrphans(ctx)
			k.removeMirrors(ctx)
		}, "node", k.config.NodeName)
		if k.config.RootDir == "" && k.config.StaticPodPath == "" {
			k.round.Store(0)
			return
		}
		if err := panics.Try(k.config.Logger, panics.Node, func() error { return k.config.Runtime.Collect(ctx, k.has) }, "node", k.config.NodeName); err != nil && ctx.Err() == nil {
			k.config.Logger.Warn("the kubelet could not remove ended containers; it tries again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(housekeepingPeriod):
		}
	}
}

// Healthy says whether the node is looked after: whether the runtime and the file system have answered the search in time. A kubelet that waits for
// its API server is well.
func (k *Kubelet) Healthy() error {
	if began := k.round.Load(); began != 0 && time.Since(time.Unix(0, began)) > 3*housekeepingPeriod {
		return errors.New("sync Loop took longer than expected")
	}
	return nil
}

// has says whether a pod is one of this node's.
func (k *Kubelet) has(uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.workers[uid] != nil
}

// removeOrphans gives each pod that is none of this node's, but of which something is there, a worker that ends it.
func (k *Kubelet) removeOrphans(ctx context.Context) {
	found := map[types.UID]PodReference{}
	note := func(where string, uids []types.UID, err error) {
		if err != nil && ctx.Err() == nil {
			k.config.Logger.Warn("the kubelet could not list the pods that something is left of; it tries again", "where", where, "error", err)
		}
		for _, uid := range uids {
			if _, ok := found[uid]; !ok {
				found[uid] = PodReference{UID: uid}
			}
		}
	}
	running, err := k.config.Runtime.Pods(ctx)
	note("runtime", nil, err)
	for _, pod := range running {
		found[pod.UID] = pod
	}
	if volumes := k.config.Parts.Volumes; volumes != nil {
		uids, err := volumes.Pods()
		note("volumes", uids, err)
	}
	if cgroups := k.config.Parts.Cgroups; cgroups != nil {
		uids, err := cgroups.Pods()
		note("cgroups", uids, err)
	}
	if ports := k.config.Parts.HostPorts; ports != nil {
		note("host ports", ports.Pods(), nil)
	}
	note("allocations", k.allocations.All(), nil)
	for uid, reference := range found {
		k.endOrphan(ctx, reference, uid)
	}
}

func (k *Kubelet) endOrphan(ctx context.Context, reference PodReference, uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.workers[uid] != nil {
		return
	}
	k.config.Logger.Info("the kubelet removes what is left of a pod that is no longer its own", "namespace", reference.Namespace, "pod", reference.Name, "uid", uid)
	w := newWorker(k, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: reference.Namespace, Name: reference.Name, UID: uid}})
	w.gone, w.orphan = true, true
	k.workers[uid] = w
	w.begin(ctx)
}

// lookAtAll makes all workers look again.
func (k *Kubelet) lookAtAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.workers {
		w.signal()
	}
}
