package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/internal/localvolume"
)

// storageClass is the class of claims that name none, in clusters with real nodes.
const storageClass = "local"

// makeStorageClass makes the class of local volumes, the default one, when the cluster is new: who removes or changes it finds it so
// afterwards. Whether it is new is told by a mark on the namespace kube-system.
func makeStorageClass(ctx context.Context, client kubernetes.Interface) error {
	const mark = "vigil.dev/storage-class-made"
	system, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("make the class of local volumes: %w", err)
	}
	if system.Annotations[mark] != "" {
		return nil
	}
	_, err = client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: storageClass, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner:       localvolume.Provisioner,
		ReclaimPolicy:     new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the class of local volumes: %w", err)
	}
	metav1.SetMetaDataAnnotation(&system.ObjectMeta, mark, storageClass)
	if _, err := client.CoreV1().Namespaces().Update(ctx, system, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("make the class of local volumes: %w", err)
	}
	return nil
}
