package attachdetach

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// detachUnused detaches a volume from the nodes whose pods do not use it. It returns when to look again, 0 when nothing but an event can
// change what there is to do.
func (c *Controller) detachUnused(ctx context.Context, p *progress, attachments map[string]*storagev1.VolumeAttachment, used func(node string) bool) (time.Duration, error) {
	for node := range p.unused {
		if a := attachments[node]; a == nil || c.deleted(a) || used(node) {
			delete(p.unused, node)
		}
	}
	var again time.Duration
	for node, a := range attachments {
		if c.deleted(a) || used(node) {
			continue
		}
		if _, ok := p.unused[node]; !ok {
			p.unused[node] = time.Now()
		}
		after, err := c.detach(ctx, a, p.unused[node])
		if err != nil {
			return 0, err
		}
		again = sooner(again, after)
	}
	return again, nil
}

// orphans detaches what is attached of a PersistentVolume that is gone.
func (c *Controller) orphans(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	if _, err := c.volumes.Get("", key.Name); !apierrors.IsNotFound(err) {
		return 0, err // it has come back, and into the queue under its own name
	}
	found, err := c.attachments.ByIndex(attachmentsByVolume, key.Name)
	if err != nil {
		return 0, err
	}
	attachments := map[string]*storagev1.VolumeAttachment{}
	for _, a := range found {
		if strings.HasPrefix(a.Name, namePrefix) && len(a.Name) == len(Name("", "", "")) {
			attachments[a.Spec.NodeName] = a
		}
	}
	p := c.progressOf(key)
	defer c.rest(key, p)
	return c.detachUnused(ctx, p, attachments, func(string) bool { return false })
}

// detach deletes a VolumeAttachment that no pod has needed since a time, once its node does not use the volume any more.
func (c *Controller) detach(ctx context.Context, a *storagev1.VolumeAttachment, since time.Time) (time.Duration, error) {
	if node, err := c.nodes.Get("", a.Spec.NodeName); err == nil {
		if free, again := c.free(node, a, since); !free {
			return again, nil
		}
	}
	// The cache may be behind. Ask, and take the volume out of what pods may mount before it is detached.
	node, err := c.config.Client.CoreV1().Nodes().Get(ctx, a.Spec.NodeName, metav1.GetOptions{})
	if err == nil {
		if free, again := c.free(node, a, since); !free {
			return again, nil
		}
		c.leaves(a, false)
		err = c.writeAttached(ctx, node, slices.DeleteFunc(slices.Clone(node.Status.VolumesAttached), func(v corev1.AttachedVolume) bool {
			return isFor(v.Name, node.Name, a.Name)
		}))
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("detach from node %s: %w", a.Spec.NodeName, err)
	}
	err = c.config.Client.StorageV1().VolumeAttachments().Delete(ctx, a.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &a.UID}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("detach from node %s: %w", a.Spec.NodeName, err)
	}
	c.leaves(a, true)
	return 0, nil
}

// free says whether a volume that no pod has used since a time may be detached from its node; if not, when to ask again unless the node
// changes.
func (c *Controller) free(node *corev1.Node, a *storagev1.VolumeAttachment, since time.Time) (free bool, again time.Duration) {
	if !slices.ContainsFunc(node.Status.VolumesInUse, func(v corev1.UniqueVolumeName) bool { return isFor(v, node.Name, a.Name) }) || outOfService(node) {
		return true, 0
	}
	if ready(node) {
		return false, 0
	}
	left := c.config.UnmountWait - time.Since(since)
	if left > 0 {
		return false, left
	}
	c.config.Logger.Warn("the controller detaches a volume from a node that may still use it; the node has not been ready for too long", "attachment", a.Name, "node", node.Name, "unused", time.Since(since).Round(time.Second))
	return true, 0
}

// leaving is a VolumeAttachment that is deleted, or about to be.
type leaving struct {
	uid     types.UID
	deleted bool // the server knows
}

// leaves notes that a VolumeAttachment is deleted or about to be, so that its node's status does not name it again. The informer may have
// told already that it is gone.
func (c *Controller) leaves(a *storagev1.VolumeAttachment, deleted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if o, ok := c.attachments.Informer().Indexer().Get("", a.Name); ok && o.UID() == a.UID {
		c.detaching[a.Name] = leaving{a.UID, deleted}
	}
}

// stays takes back that a VolumeAttachment is about to be deleted: that failed, and pods need it again.
func (c *Controller) stays(a *storagev1.VolumeAttachment) {
	if c.forget(a) {
		c.nodeQueue.Add(types.NamespacedName{Name: a.Spec.NodeName})
	}
}

// forget drops what is noted of a VolumeAttachment, if anything is.
func (c *Controller) forget(a *storagev1.VolumeAttachment) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.detaching[a.Name].uid != a.UID {
		return false
	}
	delete(c.detaching, a.Name)
	return true
}

// isLeaving says whether a VolumeAttachment is deleted, and whether it is that or about to be.
func (c *Controller) isLeaving(a *storagev1.VolumeAttachment) (deleted, soon bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	noted := c.detaching[a.Name]
	soon = noted.uid == a.UID
	deleted = a.DeletionTimestamp != nil || soon && noted.deleted
	return deleted, deleted || soon
}

func (c *Controller) deleted(a *storagev1.VolumeAttachment) bool {
	deleted, _ := c.isLeaving(a)
	return deleted
}
