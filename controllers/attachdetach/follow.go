package attachdetach

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer"
)

// follow registers what puts volumes and nodes into the queues.
func (c *Controller) follow() {
	c.pods.AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { c.lookAtClaimsOf(o) },
		OnUpdate: func(_, o *informer.Object) { c.lookAtClaimsOf(o) },
		OnDelete: func(o *informer.Object, _ bool) { c.lookAtClaimsOf(o) },
	})
	c.claims.Informer().AddHandler(informer.Handler[*corev1.PersistentVolumeClaim]{
		OnAdd:    func(claim *corev1.PersistentVolumeClaim, _ bool) { c.lookAt(claim.Spec.VolumeName) },
		OnUpdate: func(_, claim *corev1.PersistentVolumeClaim) { c.lookAt(claim.Spec.VolumeName) },
		OnDelete: func(claim *corev1.PersistentVolumeClaim, _ bool) { c.lookAt(claim.Spec.VolumeName) },
	}.EventHandler())
	volume := func(pv *corev1.PersistentVolume) {
		if pv.Spec.CSI != nil {
			c.volumeQueue.Add(keyOf(pv))
		}
	}
	c.volumes.Informer().AddHandler(informer.Handler[*corev1.PersistentVolume]{
		OnAdd:    func(pv *corev1.PersistentVolume, _ bool) { volume(pv) },
		OnUpdate: func(_, pv *corev1.PersistentVolume) { volume(pv) },
		OnDelete: func(pv *corev1.PersistentVolume, _ bool) {
			volume(pv)
			c.lookAt(pv.Name)
		},
	}.EventHandler())
	c.drivers.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { c.lookAtDriver(o.Name()) },
		OnUpdate: func(_, o *informer.Object) { c.lookAtDriver(o.Name()) },
		OnDelete: func(o *informer.Object, _ bool) { c.lookAtDriver(o.Name()) },
	})
	attachment := func(a *storagev1.VolumeAttachment) {
		if name := a.Spec.Source.PersistentVolumeName; name != nil {
			c.lookAt(*name)
			c.nodeQueue.Add(types.NamespacedName{Name: a.Spec.NodeName})
		}
	}
	c.attachments.Informer().AddHandler(informer.Handler[*storagev1.VolumeAttachment]{
		OnAdd:    func(a *storagev1.VolumeAttachment, _ bool) { attachment(a) },
		OnUpdate: func(_, a *storagev1.VolumeAttachment) { attachment(a) },
		OnDelete: func(a *storagev1.VolumeAttachment, _ bool) {
			c.forget(a)
			attachment(a)
		},
	}.EventHandler())
	c.nodes.Informer().AddHandler(informer.Handler[*corev1.Node]{
		OnAdd: func(node *corev1.Node, _ bool) { c.lookAtNode(node.Name) },
		OnUpdate: func(old, node *corev1.Node) {
			if !slices.Equal(old.Status.VolumesInUse, node.Status.VolumesInUse) || ready(old) != ready(node) || outOfService(old) != outOfService(node) {
				c.lookAtNode(node.Name)
			} else if !apiequality.Semantic.DeepEqual(old.Status.VolumesAttached, node.Status.VolumesAttached) {
				c.nodeQueue.Add(types.NamespacedName{Name: node.Name})
			}
		},
		OnDelete: func(node *corev1.Node, _ bool) { c.lookAtNode(node.Name) },
	}.EventHandler())
}

// keyOf is how the queue names the volume of a PersistentVolume with a CSI source.
func keyOf(pv *corev1.PersistentVolume) types.NamespacedName {
	return types.NamespacedName{Namespace: pv.Spec.CSI.Driver, Name: pv.Spec.CSI.VolumeHandle}
}

// lookAt puts the volume of a PersistentVolume into the queue, if it is one of a CSI driver or gone.
func (c *Controller) lookAt(pvName string) {
	if pvName == "" {
		return
	}
	pv, err := c.volumes.Get("", pvName)
	switch {
	case err != nil:
		c.volumeQueue.Add(types.NamespacedName{Name: pvName})
	case pv.Spec.CSI != nil:
		c.volumeQueue.Add(keyOf(pv))
	}
}

func (c *Controller) lookAtClaimsOf(pod *informer.Object) {
	for _, key := range claimsOf(nil, pod) {
		namespace, name, _ := strings.Cut(key, "/")
		if claim, err := c.claims.Get(namespace, name); err == nil {
			c.lookAt(claim.Spec.VolumeName)
		}
	}
}

func (c *Controller) lookAtDriver(name string) {
	for _, value := range c.volumes.Informer().Indexer().IndexValues(volumesByHandle) {
		if driver, handle, _ := strings.Cut(value, "^"); driver == name {
			c.volumeQueue.Add(types.NamespacedName{Namespace: driver, Name: handle})
		}
	}
}

// lookAtNode puts a node into the queue, with the volumes that it has or should have.
func (c *Controller) lookAtNode(name string) {
	c.nodeQueue.Add(types.NamespacedName{Name: name})
	attachments, err := c.attachments.Informer().Indexer().ByIndex(attachmentsByNode, name)
	if err == nil {
		for _, a := range attachments {
			for _, pv := range volumeOfAttachment(nil, a) {
				c.lookAt(pv)
			}
		}
	}
	pods, err := c.pods.Indexer().ByIndex(podsByNode, name)
	if err == nil {
		for _, pod := range pods {
			c.lookAtClaimsOf(pod)
		}
	}
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func outOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}
