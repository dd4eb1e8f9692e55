package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
)

// nodeIDs is the annotation of a Node that has its IDs by driver, as JSON.
const nodeIDs = "csi.volume.kubernetes.io/nodeid"

// nodeObject writes what drivers say of the node to its CSINode and its Node (pkg/volume/csi/nodeinfomanager).
type nodeObject struct {
	name   string
	client kubernetes.Interface

	mu sync.Mutex // held while something is written
}

// ensure makes the CSINode when there is none: schedulers look at it also when the node has no drivers.
func (n *nodeObject) ensure(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.change(ctx, func(drivers []storagev1.CSINodeDriver) []storagev1.CSINodeDriver { return drivers })
}

// add makes a driver one of the node's.
func (n *nodeObject) add(ctx context.Context, driver string, info *csi.NodeGetInfoResponse) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	segments := info.GetAccessibleTopology().GetSegments()
	if err := n.label(ctx, driver, info.NodeId, segments); err != nil {
		return fmt.Errorf("error updating Node object with CSI driver node info: %w", err)
	}
	entry := storagev1.CSINodeDriver{Name: driver, NodeID: info.NodeId, TopologyKeys: slices.Sorted(maps.Keys(segments))}
	if most := info.MaxVolumesPerNode; most > 0 {
		entry.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(min(most, math.MaxInt32)))}
	}
	if err := n.change(ctx, func(drivers []storagev1.CSINodeDriver) []storagev1.CSINodeDriver {
		return append(without(drivers, driver), entry)
	}); err != nil {
		return fmt.Errorf("error updating CSINode object with CSI driver node info: %w", err)
	}
	return nil
}

// remove makes a driver none of the node's. The labels stay: volumes are where they were.
func (n *nodeObject) remove(ctx context.Context, driver string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.label(ctx, driver, "", nil); err != nil {
		return fmt.Errorf("error removing CSI driver node info from Node object: %w", err)
	}
	err := n.change(ctx, func(drivers []storagev1.CSINodeDriver) []storagev1.CSINodeDriver { return without(drivers, driver) })
	if err != nil {
		return fmt.Errorf("error uninstalling CSI driver from CSINode object: %w", err)
	}
	return nil
}

func without(drivers []storagev1.CSINodeDriver, name string) []storagev1.CSINodeDriver {
	return slices.DeleteFunc(slices.Clone(drivers), func(d storagev1.CSINodeDriver) bool { return d.Name == name })
}

// change changes the drivers of the CSINode, which is made when there is none.
func (n *nodeObject) change(ctx context.Context, f func([]storagev1.CSINodeDriver) []storagev1.CSINodeDriver) error {
	nodes := n.client.StorageV1().CSINodes()
	again := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	return retry.OnError(retry.DefaultBackoff, again, func() error {
		object, err := nodes.Get(ctx, n.name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			node, err := n.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			object = &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: n.name, OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
			}}}
			object.Spec.Drivers = f([]storagev1.CSINodeDriver{})
			_, err = nodes.Create(ctx, object, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		before := object.DeepCopy()
		object.Spec.Drivers = f(object.Spec.Drivers)
		if slices.EqualFunc(before.Spec.Drivers, object.Spec.Drivers, sameDriver) {
			return nil
		}
		_, err = nodes.Update(ctx, object, metav1.UpdateOptions{})
		return err
	})
}

func sameDriver(a, b storagev1.CSINodeDriver) bool {
	count := func(d storagev1.CSINodeDriver) int32 {
		if d.Allocatable == nil || d.Allocatable.Count == nil {
			return -1
		}
		return *d.Allocatable.Count
	}
	return a.Name == b.Name && a.NodeID == b.NodeID && slices.Equal(a.TopologyKeys, b.TopologyKeys) && count(a) == count(b)
}

// label brings the Node's annotation of IDs up to date, without the driver when id is "", and adds labels. A label of another value is
// not changed: it fails.
func (n *nodeObject) label(ctx context.Context, driver, id string, labels map[string]string) error {
	node, err := n.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for key, value := range labels {
		if have, ok := node.Labels[key]; ok && have != value {
			return fmt.Errorf("detected topology value collision: driver reported %q:%q but existing label is %q:%q", key, value, key, have)
		}
	}
	ids := map[string]string{}
	if old := node.Annotations[nodeIDs]; old != "" {
		if err := json.Unmarshal([]byte(old), &ids); err != nil {
			return fmt.Errorf("annotation %s: %w", nodeIDs, err)
		}
	}
	if id == "" {
		delete(ids, driver)
	} else {
		ids[driver] = id
	}
	var annotation any // nil takes it away
	if len(ids) > 0 {
		text, err := json.Marshal(ids)
		if err != nil {
			return err
		}
		annotation = string(text)
	}
	if annotation == any(node.Annotations[nodeIDs]) && has(node, labels) || annotation == nil && node.Annotations[nodeIDs] == "" {
		return nil
	}
	metadata := map[string]any{"annotations": map[string]any{nodeIDs: annotation}}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	_, err = n.client.CoreV1().Nodes().Patch(ctx, n.name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

func has(node *corev1.Node, labels map[string]string) bool {
	for key := range labels {
		if _, ok := node.Labels[key]; !ok {
			return false
		}
	}
	return true
}
