package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet"
	"vigil/kubelet/cri"
)

// imageGC makes what removes images that nobody uses.
func (n *Node) imageGC() (*cri.ImageGC, error) {
	c := &n.config.Images
	return n.runtime.NewImageGC(cri.ImageGCConfig{
		HighThreshold: c.HighThreshold, LowThreshold: c.LowThreshold, MinAge: c.MinAge, MaxAge: c.MaxAge,
		Node: &corev1.ObjectReference{Kind: "Node", Name: n.name, UID: types.UID(n.name)}, Recorder: n.recorder, Logger: n.log,
	})
}

// describeImages says in the Node's status which images are there. A runtime that does not answer says so in the condition Ready.
func (n *Node) describeImages(status *corev1.NodeStatus) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := n.images.Describe(ctx, status); err != nil {
		n.log.Debug("the kubelet cannot list the images of the node; its status says nothing of them", "node", n.name, "error", err)
	}
}

// volumeImage brings the image of a volume to the node, with the pod's pull secrets and the events that containers' images have.
func (n *Node) volumeImage(objects kubelet.Objects) func(context.Context, *corev1.Pod, string, corev1.PullPolicy) (id string, err error) {
	return func(ctx context.Context, pod *corev1.Pod, image string, policy corev1.PullPolicy) (string, error) {
		request := kubelet.ImageRequest{Pod: pod, Container: &corev1.Container{Image: image, ImagePullPolicy: policy}}
		request.Began = func() { n.recorder.Eventf(pod, corev1.EventTypeNormal, "Pulling", "Pulling image %q", image) }
		for _, reference := range pod.Spec.ImagePullSecrets {
			// One that is missing may not be needed; the containers' images tell of it.
			if secret, err := objects.Secret(ctx, pod.Namespace, reference.Name); err == nil {
				request.Secrets = append(request.Secrets, secret)
			}
		}
		have, err := n.runtime.EnsureImage(ctx, request)
		if err == nil && have.Pulled {
			n.recorder.Eventf(pod, corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %v (%v including waiting). Image size: %v bytes.",
				image, (have.Took - have.Waited).Truncate(time.Millisecond), have.Took.Truncate(time.Millisecond), have.Size)
		}
		return have.ID, err
	}
}
