package kubelet

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/manifests"
)

// statics are the pods of manifests and what shows them in the API: each has a mirror pod of its name there, whose annotation
// says the hash of what it mirrors. The kubelet makes mirrors, writes their statuses, and deletes those of nothing.
type statics struct {
	mu      sync.Mutex    // may be taken while nothing else is held; the kubelet's mu may be taken under it
	read    chan struct{} // closed when manifests have been read
	once    sync.Once     // closes read
	wanted  map[types.UID]*corev1.Pod
	mirrors map[types.NamespacedName]*corev1.Pod
	node    types.UID // of the Node, which owns the mirrors; "" until it is known
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// followManifests starts and ends pods as manifests say, until ctx ends.
func (k *Kubelet) followManifests(ctx context.Context) {
	manifests.New(k.config.StaticPodPath, k.config.NodeName, k.config.Logger).Run(ctx, func(pods map[types.UID]*corev1.Pod) {
		k.statics.mu.Lock()
		before := k.statics.wanted
		k.statics.wanted = pods
		k.statics.mu.Unlock()
		for uid := range before {
			if pods[uid] == nil {
				k.mu.Lock()
				w := k.workers[uid]
				k.mu.Unlock()
				if w != nil {
					w.forget()
				}
			}
		}
		k.startStatics(ctx)
		k.statics.once.Do(func() { close(k.statics.read) })
	})
}

// waitForManifests waits until the manifests have been read, and says whether they were before ctx ended.
func (k *Kubelet) waitForManifests(ctx context.Context) bool {
	select {
	case <-k.statics.read:
		return true
	case <-ctx.Done():
		return false
	}
}

// startStatics starts the pods of manifests that do not run. A pod waits until another of its name has ended: a manifest that is
// changed is another pod.
func (k *Kubelet) startStatics(ctx context.Context) {
	k.statics.mu.Lock()
	defer k.statics.mu.Unlock()
	for uid, pod := range k.statics.wanted {
		k.mu.Lock()
		taken := k.workers[uid] != nil
		for _, w := range k.workers {
			taken = taken || w.static && nameOf(w.pod) == nameOf(pod)
		}
		k.mu.Unlock()
		if taken {
			continue
		}
		if mirror := k.statics.mirrors[nameOf(pod)]; mirror != nil && mirror.Annotations[manifests.MirrorAnnotation] == pod.Annotations[manifests.HashAnnotation] {
			k.status.mirror(pod, mirror)
		}
		k.update(ctx, pod)
	}
}

// staticEnded starts what has waited for the end of a pod, and deletes the pod's mirror when nothing has.
func (k *Kubelet) staticEnded(ctx context.Context) {
	if ctx.Err() != nil {
		return
	}
	k.startStatics(ctx)
	k.removeMirrors(ctx)
}

// mirrored takes note of an object of the API that mirrors a pod, and says whether it is one.
func (k *Kubelet) mirrored(pod *corev1.Pod) bool {
	if _, ok := pod.Annotations[manifests.MirrorAnnotation]; !ok {
		return false
	}
	k.statics.mu.Lock()
	k.statics.mirrors[nameOf(pod)] = pod
	k.statics.mu.Unlock()
	k.lookAtStatic(pod)
	return true
}

// unmirrored is mirrored for an object that is gone.
func (k *Kubelet) unmirrored(pod *corev1.Pod) bool {
	if _, ok := pod.Annotations[manifests.MirrorAnnotation]; !ok {
		return false
	}
	k.statics.mu.Lock()
	if have := k.statics.mirrors[nameOf(pod)]; have != nil && have.UID == pod.UID {
		delete(k.statics.mirrors, nameOf(pod))
	}
	k.statics.mu.Unlock()
	k.lookAtStatic(pod)
	return true
}

func (k *Kubelet) lookAtStatic(mirror *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, w := range k.workers {
		if w.static && nameOf(w.pod) == nameOf(mirror) {
			w.signal()
		}
	}
}

// keepMirror makes the mirror of a pod, and anew when it is another's, or is deleted.
func (k *Kubelet) keepMirror(ctx context.Context, pod *corev1.Pod) error {
	if !k.pods.HasSynced() {
		return nil // the API server has not told what there is
	}
	k.statics.mu.Lock()
	mirror := k.statics.mirrors[nameOf(pod)]
	k.statics.mu.Unlock()
	if mirror != nil {
		if mirror.DeletionTimestamp == nil && mirror.Annotations[manifests.MirrorAnnotation] == pod.Annotations[manifests.HashAnnotation] {
			k.status.mirror(pod, mirror)
			return nil
		}
		return k.deleteMirror(ctx, mirror) // the watch will tell when it is gone
	}
	owner, err := k.nodeUID(ctx)
	if err != nil {
		return err
	}
	yes := true
	mirror = pod.DeepCopy()
	mirror.UID, mirror.Status = "", corev1.PodStatus{}
	mirror.Annotations[manifests.MirrorAnnotation] = pod.Annotations[manifests.HashAnnotation]
	mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: k.config.NodeName, UID: owner, Controller: &yes}}
	_, err = k.client.CoreV1().Pods(pod.Namespace).Create(ctx, mirror, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create mirror pod: %w", err)
	}
	return nil
}

func (k *Kubelet) nodeUID(ctx context.Context) (types.UID, error) {
	k.statics.mu.Lock()
	uid := k.statics.node
	k.statics.mu.Unlock()
	if uid != "" {
		return uid, nil
	}
	node, err := k.client.CoreV1().Nodes().Get(ctx, k.config.NodeName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get the node that owns mirror pods: %w", err)
	}
	k.statics.mu.Lock()
	defer k.statics.mu.Unlock()
	k.statics.node = node.UID
	return node.UID, nil
}

func (k *Kubelet) deleteMirror(ctx context.Context, mirror *corev1.Pod) error {
	now := int64(0)
	err := k.client.CoreV1().Pods(mirror.Namespace).Delete(ctx, mirror.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &mirror.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete mirror pod: %w", err)
	}
	return nil
}

// removeMirrors deletes mirrors of pods that are not there, and do not end either.
func (k *Kubelet) removeMirrors(ctx context.Context) {
	k.statics.mu.Lock()
	orphans := map[types.NamespacedName]*corev1.Pod{}
	for name, mirror := range k.statics.mirrors {
		orphans[name] = mirror
	}
	for _, pod := range k.statics.wanted {
		delete(orphans, nameOf(pod))
	}
	k.statics.mu.Unlock()
	k.mu.Lock()
	for _, w := range k.workers {
		if w.static {
			delete(orphans, nameOf(w.pod))
		}
	}
	k.mu.Unlock()
	for _, mirror := range orphans {
		if err := k.deleteMirror(ctx, mirror); err != nil && ctx.Err() == nil {
			k.config.Logger.Warn("the kubelet could not delete the mirror of a static pod that is gone; it tries again", "namespace", mirror.Namespace, "pod", mirror.Name, "error", err)
		}
	}
}
