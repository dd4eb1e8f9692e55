package nodetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/eventually"
	"vigil/kubelet/volumes/mount"
)

// volume adds a volume to a pod, mounted at /NAME.
func volume(pod *corev1.Pod, name string, source corev1.VolumeSource) *corev1.VolumeMount {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
	return &c.VolumeMounts[len(c.VolumeMounts)-1]
}

func ofConfigMap(name string) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named(name)}}
}

func (n *Node) setConfigMap(name string, data map[string]string) {
	n.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	if _, err := n.Client.CoreV1().ConfigMaps("default").Update(n.t.Context(), object, metav1.UpdateOptions{}); err != nil {
		n.t.Fatal(err)
	}
}

// sees waits until a container finds content in a file.
func (n *Node) sees(pod *corev1.Pod, path, content string) {
	n.t.Helper()
	eventually.Nil(n.t, pod.Name+" sees "+content+" in "+path, func() error {
		if seen := n.Exec(pod, "cat", path); strings.TrimSpace(seen) != content {
			return errors.New("it sees " + seen)
		}
		return nil
	})
}

// TestVolumes has a container whose volumes change under it, also while there is another kubelet, and nothing of which is left.
func TestVolumes(t *testing.T) {
	node := Start(t, nil)
	node.configMap("settings", map[string]string{"color": "blue", "size": "1"})
	host := t.TempDir()
	if err := os.Chmod(host, 0o755); err != nil {
		t.Fatal(err)
	}
	pod := Pod("web", "serve")
	pod.Labels = map[string]string{"app": "one"}
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1234)), RunAsGroup: new(int64(1234)), FSGroup: new(int64(4242))}
	volume(pod, "config", ofConfigMap("settings"))
	volume(pod, "disk", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
	volume(pod, "memory", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: new(resource.MustParse("1Mi"))}})
	volume(pod, "host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Join(host, "made"), Type: new(corev1.HostPathDirectoryOrCreate)}}).ReadOnly = true
	pod.Spec.Containers[0].VolumeMounts[3].RecursiveReadOnly = new(corev1.RecursiveReadOnlyEnabled)
	volume(pod, "labels", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
		{Path: "app", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}},
	}}})
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "config", MountPath: "/color", SubPath: "color"})
	node.Create(pod)
	running := node.Ready("web")

	node.sees(running, "/config/color", "blue")
	node.sees(running, "/color", "blue")
	node.Exec(running, "write", "/disk/note", "kept")
	node.Exec(running, "write", "/memory/note", "kept")
	node.setConfigMap("settings", map[string]string{"color": "red"})
	node.sees(running, "/config/color", "red")
	node.sees(running, "/color", "blue") // a subPath never changes
	if _, err := node.Client.CoreV1().Pods("default").Patch(t.Context(), "web", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"app":"two"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	node.sees(running, "/labels/app", "two")

	if s := running.Status.ContainerStatuses[0].VolumeMounts[3]; !s.ReadOnly || s.RecursiveReadOnly == nil || *s.RecursiveReadOnly != corev1.RecursiveReadOnlyEnabled {
		t.Errorf("the host's directory is mounted as %+v", s)
	}

	node.Restart()
	node.setConfigMap("settings", map[string]string{"color": "green"})
	node.sees(running, "/config/color", "green")
	node.sees(running, "/disk/note", "kept")
	node.sees(running, "/memory/note", "kept")
	if now := node.Ready("web"); now.Status.ContainerStatuses[0].ContainerID != running.Status.ContainerStatuses[0].ContainerID {
		t.Error("the container is another one")
	}

	if err := node.Client.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "web is gone", func() error {
		_, err := node.Client.CoreV1().Pods("default").Get(context.Background(), "web", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.New("it is there")
	})
	node.nothingLeft(running)
	if _, err := os.Stat(filepath.Join(host, "made")); err != nil {
		t.Errorf("the host's directory: %v", err)
	}
}

// nothingLeft waits until no pod has anything mounted, and a pod no directory.
func (n *Node) nothingLeft(pod *corev1.Pod) {
	n.t.Helper()
	eventually.Nil(n.t, "nothing of "+pod.Name+" is left", func() error {
		if _, err := os.Stat(filepath.Join(n.rootDir, "pods", string(pod.UID))); !os.IsNotExist(err) {
			return errors.New("its directory is there")
		}
		below, err := mount.Below(filepath.Join(n.rootDir, "pods"))
		if err == nil && len(below) > 0 {
			err = errors.New(below[0].Path + " is mounted")
		}
		return err
	})
}

// TestVolumes_Orphan deletes a pod while there is no kubelet: the next one ends it and takes its volumes away.
func TestVolumes_Orphan(t *testing.T) {
	node := Start(t, nil)
	node.configMap("settings", map[string]string{"k": "v"})
	pod := Pod("web", "serve")
	volume(pod, "memory", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}})
	volume(pod, "config", ofConfigMap("settings")).SubPath = "k"
	node.Create(pod)
	running := node.Ready("web")
	node.Exec(running, "write", "/memory/note", "x")
	node.stop()
	if err := node.Client.CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	node.start()
	node.nothingLeft(running)
}

// TestVolumes_Missing has pods that wait for what is not there.
func TestVolumes_Missing(t *testing.T) {
	node := Start(t, nil)
	missing := Pod("missing", "serve")
	volume(missing, "config", ofConfigMap("later"))
	node.Create(missing)
	wrong := Pod("wrong", "serve")
	volume(wrong, "host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/hostname-of-nobody", Type: new(corev1.HostPathFile)}})
	node.Create(wrong)
	escape := Pod("escape", "serve")
	volume(escape, "disk", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/proc"}}).SubPath = "self/root"
	node.Create(escape)

	node.Event("missing", "FailedMount", `MountVolume.SetUp failed for volume "config" : configmap "later" not found`)
	node.Event("wrong", "FailedMount", `MountVolume.SetUp failed for volume "host" : hostPath /etc/hostname-of-nobody doesn't exist`)
	node.Event("escape", "Failed", `Error: failed to prepare subPath for volumeMount "disk" of container "c"`)
	node.Await("missing", "is being created", func(pod *corev1.Pod) error {
		if s := pod.Status.ContainerStatuses; len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == "ContainerCreating" {
			return nil
		}
		return errors.New("it is not")
	})
	node.configMap("later", map[string]string{"k": "v"})
	node.sees(node.Ready("missing"), "/config/k", "v")
}
