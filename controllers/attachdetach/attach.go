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

// The reasons of events.
const (
	attachedReason = "SuccessfulAttachVolume"
	failedReason   = "FailedAttachVolume"
)

// cacheWait is how long to wait for the informer to show a VolumeAttachment that was just made.
const cacheWait = 10 * time.Millisecond

// volume attaches and detaches the volume whose turn it is.
func (c *Controller) volume(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	if key.Namespace == "" {
		return c.orphans(ctx, key)
	}
	if !c.wrote.Passed(types.UID(key.String()), c.attachments.Informer().ResourceVersion()) {
		return cacheWait, nil
	}
	s, err := c.look(key.Namespace, key.Name)
	if err != nil {
		return 0, err
	}
	p := c.progressOf(key)
	defer c.rest(key, p)
	for node := range p.attaching {
		if !s.usedOn(node) {
			delete(p.attaching, node)
		}
	}
	again, err := c.detachUnused(ctx, p, s.attachments, s.usedOn)
	if err != nil {
		return 0, err
	}
	for _, u := range s.uses {
		after, err := c.attach(ctx, key, p, s, u)
		if err != nil {
			return 0, err
		}
		again = sooner(again, after)
	}
	return again, nil
}

// sooner is the shorter of two delays, of which 0 means never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}

// attach has a volume attached to a node, and tells the node's pods how it goes.
func (c *Controller) attach(ctx context.Context, key types.NamespacedName, p *progress, s *state, u use) (time.Duration, error) {
	try := p.attaching[u.node]
	have := s.attachments[u.node]
	switch {
	case have != nil && c.deleted(have): // a new one follows it
		return 0, nil
	case have != nil && have.Status.Attached:
		c.stays(have)
		if try != nil {
			delete(p.attaching, u.node)
			c.tell(u.pods, corev1.EventTypeNormal, attachedReason, fmt.Sprintf("AttachVolume.Attach succeeded for volume %q ", u.pv.Name))
		}
		return 0, nil
	}
	if try == nil {
		try = &attempt{told: map[types.UID]bool{}}
		p.attaching[u.node] = try
	}
	if have == nil {
		if exclusive(u.pv) && c.conflict(s, u, try) {
			return 0, nil
		}
		return c.create(ctx, key, s, u, try)
	}
	if try.since.IsZero() { // another has made it
		try.since = time.Now()
	}
	if failed := have.Status.AttachError; failed != nil {
		if said := failed.Time.String() + failed.Message; said != try.failed {
			try.failed = said
			c.tell(u.pods, corev1.EventTypeWarning, failedReason, fmt.Sprintf("AttachVolume.Attach failed for volume %q : %s", u.pv.Name, failed.Message))
		}
		return 0, nil // the attacher tries again
	}
	left := c.config.AttachWait - time.Since(try.since)
	if left <= 0 {
		c.tell(u.pods, corev1.EventTypeWarning, failedReason, fmt.Sprintf("AttachVolume.Attach failed for volume %q : timed out waiting for external-attacher of %s CSI driver to attach volume %s", u.pv.Name, key.Namespace, key.Name))
		try.since, left = time.Now(), c.config.AttachWait
	}
	return left, nil
}

// create makes the VolumeAttachment for a node.
func (c *Controller) create(ctx context.Context, key types.NamespacedName, s *state, u use, try *attempt) (time.Duration, error) {
	made, err := c.config.Client.StorageV1().VolumeAttachments().Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: Name(key.Namespace, key.Name, u.node)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: key.Namespace, NodeName: u.node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &u.pv.Name},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return cacheWait, nil // the informer will show it
	}
	if err != nil {
		c.tell(u.pods, corev1.EventTypeWarning, failedReason, fmt.Sprintf("AttachVolume.Attach failed for volume %q : %v", u.pv.Name, err))
		return 0, fmt.Errorf("attach volume %s to node %s: %w", u.pv.Name, u.node, err)
	}
	c.wrote.Wrote(types.UID(key.String()), made.ResourceVersion)
	try.since, try.failed = time.Now(), ""
	clear(try.told)
	s.attachments[u.node] = made
	return c.config.AttachWait, nil
}

// conflict says whether another node has a volume that only one may have, and tells each pod once. When that node is about to lose it, it is
// just waited for.
func (c *Controller) conflict(s *state, u use, try *attempt) bool {
	var others []*corev1.Pod
	taken, leaving := false, true
	for node, a := range s.attachments {
		if node == u.node {
			continue
		}
		taken = true
		leaving = leaving && c.deleted(a)
		for _, other := range s.uses {
			if other.node == node {
				others = append(others, other.pods...)
			}
		}
	}
	if !taken || leaving {
		return taken
	}
	for _, pod := range u.pods {
		if try.told[pod.UID] {
			continue
		}
		try.told[pod.UID] = true
		c.tell([]*corev1.Pod{pod}, corev1.EventTypeWarning, failedReason, fmt.Sprintf("Multi-Attach error for volume %q %s", u.pv.Name, usedBy(pod, others)))
	}
	return true
}

// usedBy is what a pod is told of other pods that have a volume: names in its own namespace only.
func usedBy(pod *corev1.Pod, others []*corev1.Pod) string {
	if len(others) == 0 {
		return "Volume is already exclusively attached to one node and can't be attached to another"
	}
	var names []string
	for _, other := range others {
		if other.Namespace == pod.Namespace {
			names = append(names, other.Name)
		}
	}
	slices.Sort(names)
	elsewhere := len(others) - len(names)
	switch {
	case len(names) == 0:
		return fmt.Sprintf("Volume is already used by %d pod(s) in different namespaces", elsewhere)
	case elsewhere > 0:
		return fmt.Sprintf("Volume is already used by pod(s) %s and %d pod(s) in different namespaces", strings.Join(names, ", "), elsewhere)
	}
	return "Volume is already used by pod(s) " + strings.Join(names, ", ")
}

func (c *Controller) tell(pods []*corev1.Pod, kind, reason, message string) {
	for _, pod := range pods {
		c.config.Recorder.Event(pod, kind, reason, message)
	}
}
