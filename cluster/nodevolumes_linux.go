package cluster

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kubelet/csi"
	"vigil/kubelet/localvolumes"
)

// recursiveReadOnly says whether a pod's containers can have mounts that are read-only with all that is mounted below them.
func (n *realNode) recursiveReadOnly(ctx context.Context, pod *corev1.Pod) (bool, error) {
	handler := ""
	if name := pod.Spec.RuntimeClassName; name != nil && *name != "" {
		class, err := n.client.NodeV1().RuntimeClasses().Get(ctx, *name, metav1.GetOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		handler = class.Handler
	}
	return n.runtime.RecursiveReadOnly(ctx, handler)
}

// makeLocalVolumes has the directory of the built-in provisioner's volumes, and returns it.
func (n *realNode) makeLocalVolumes() (string, error) {
	dir, err := filepath.Abs(filepath.Join(n.config.RootDir, "local-volumes"))
	if err != nil {
		return "", err
	}
	directory, err := localvolumes.New(localvolumes.Config{Dir: dir, Client: n.client, Node: n.node, Logger: n.log})
	if err != nil {
		return "", err
	}
	n.parts = append(n.parts, part{"local volumes", directory.Run})
	return dir, nil
}

// makeCSI has the volumes of the drivers that register with this node.
func (n *realNode) makeCSI() error {
	var err error
	if n.csi, err = csi.New(csi.Config{RootDir: n.config.RootDir, NodeName: n.name, Client: n.client, Logger: n.log}); err != nil {
		return err
	}
	n.parts = append(n.parts, part{"CSI drivers", n.csi.Run})
	return nil
}
