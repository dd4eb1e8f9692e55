package node

import (
	"context"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kubelet/configobjects"
	"vigil/kubelet/csi"
	"vigil/kubelet/localvolumes"
	"vigil/kubelet/volumes"
)

// makeVolumes makes what mounts the volumes of pods, and what they are filled from.
func (n *Node) makeVolumes(context.Context) (err error) {
	if n.objects, err = configobjects.New(configobjects.Config{Server: n.rest, Logger: n.log}); err != nil {
		return err
	}
	n.parts = append(n.parts, part{"objects", n.objects.Run})
	localVolumes, err := n.makeLocalVolumes()
	if err != nil {
		return err
	}
	if n.csi, err = csi.New(csi.Config{RootDir: n.config.RootDir, NodeName: n.name, Client: n.client, Logger: n.log}); err != nil {
		return err
	}
	n.parts = append(n.parts, part{"CSI drivers", n.csi.Run})
	n.volumes, err = volumes.New(volumes.Config{
		LocalVolumes: localVolumes, Plugins: []volumes.Plugin{n.csi},
		RootDir: n.config.RootDir, NodeName: n.name, Objects: n.objects, Client: n.client, Logger: n.log, Allocatable: n.podsMayHave,
		Image: n.volumeImage(n.objects), RecursiveReadOnly: n.recursiveReadOnly,
	})
	return err
}

// recursiveReadOnly says whether a pod's containers can have mounts that are read-only with all that is mounted below them.
func (n *Node) recursiveReadOnly(ctx context.Context, pod *corev1.Pod) (bool, error) {
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
func (n *Node) makeLocalVolumes() (string, error) {
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
