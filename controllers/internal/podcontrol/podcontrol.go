// Package podcontrol creates and deletes the pods of controllers, many at once, and records the events that upstream records
// (pkg/controller/controller_utils.go).
package podcontrol

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
)

// Control writes pods. Its events are about their owner.
type Control struct {
	Client   kubernetes.Interface
	Recorder record.EventRecorder
}

// Owner is the object whose pods are written.
type Owner interface {
	runtime.Object
	metav1.Object
}

// FromTemplate returns a new pod of a template, controlled by owner and with a name that the server makes from the owner's.
func FromTemplate(template *corev1.PodTemplateSpec, owner Owner, kind schema.GroupVersionKind) *corev1.Pod {
	template = template.DeepCopy()
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       owner.GetNamespace(),
			GenerateName:    owner.GetName() + "-",
			Labels:          template.Labels,
			Annotations:     template.Annotations,
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Spec: template.Spec,
	}
}

// Create creates a pod; the client writes into it. It returns nil and no error when the namespace is being deleted: the owner goes, too.
func (c Control) Create(ctx context.Context, owner Owner, pod *corev1.Pod) (*corev1.Pod, error) {
	made, err := c.Client.CoreV1().Pods(owner.GetNamespace()).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil, nil
	}
	if err != nil {
		c.Recorder.Eventf(owner, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		return nil, err
	}
	c.Recorder.Eventf(owner, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", made.Name)
	return made, nil
}

// Delete deletes the pod of this name and uid. That it is gone already is no error.
func (c Control) Delete(ctx context.Context, owner Owner, name string, uid types.UID) error {
	err := c.Client.CoreV1().Pods(owner.GetNamespace()).Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	switch {
	case err == nil:
		c.Recorder.Eventf(owner, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", name)
	case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		c.Recorder.Eventf(owner, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		return err
	}
	return nil
}
