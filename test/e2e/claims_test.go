package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/eventually"
)

const claimManifest = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// onClaim is a pod that runs one command on the claim data and ends.
func onClaim(name, command string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "demo:1", command: [%s], volumeMounts: [{name: v, mountPath: /data}]}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
`, name, command)
}

// TestClaims keeps a file beyond the pod that has written it, until the claim goes.
func TestClaims(t *testing.T) {
	c := start(t)
	eventually.Nil(t, "a default class", func() error {
		class, err := c.Client().StorageV1().StorageClasses().Get(t.Context(), "local", metav1.GetOptions{})
		if err == nil && class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" {
			err = fmt.Errorf("it is %+v", class)
		}
		return err
	})
	c.apply(claimManifest)
	claims, volumes := c.Client().CoreV1().PersistentVolumeClaims("default"), c.Client().CoreV1().PersistentVolumes()
	c.hasEvent("data", "waiting for first consumer to be created before binding")
	ended := func(name string) *corev1.Pod {
		return c.untilPod(name, "its end", func(pod *corev1.Pod) bool {
			if pod.Status.Phase == corev1.PodFailed {
				t.Fatalf("pod %s failed: %s", name, c.Kubectl("logs", name))
			}
			return pod.Status.Phase == corev1.PodSucceeded
		})
	}
	c.apply(onClaim("writer", `demo, write, /data/greeting, "hello from before"`))
	ended("writer")
	c.Kubectl("delete", "pod", "writer")
	c.apply(onClaim("reader", `demo, cat, /data/greeting`))
	ended("reader")
	if logs := c.Kubectl("logs", "reader"); strings.TrimSpace(logs) != "hello from before" {
		t.Errorf("the second pod reads %q", logs)
	}
	claim, err := claims.Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pv, err := volumes.Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(pv.Spec.Local.Path, "greeting")); err != nil || !strings.HasPrefix(pv.Spec.Local.Path, c.DataDir) {
		t.Errorf("the file on the disk: %v", err)
	}
	t.Logf("claims and volumes:\n%s%s", c.Kubectl("get", "storageclass,pvc,pv"), strings.Join(c.events("data"), "\n"))

	c.Kubectl("delete", "pvc", "data", "--wait=false")
	if claim, err = claims.Get(t.Context(), "data", metav1.GetOptions{}); err != nil || claim.DeletionTimestamp == nil {
		t.Fatalf("a claim that a pod uses: %v", err)
	}
	c.Kubectl("delete", "pod", "reader")
	eventually.Nil(t, "the end of the volume", func() error {
		if _, err := volumes.Get(context.Background(), pv.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("volume %s is there: %v", pv.Name, err)
		}
		return nil
	})
	if _, err := os.Lstat(pv.Spec.Local.Path); !os.IsNotExist(err) {
		t.Errorf("the directory is there after the volume: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(pv.Spec.Local.Path)); err != nil || len(entries) != 0 {
		t.Errorf("the node's directory of volumes: %v, %v", entries, err)
	}
}

// TestClaims_FurtherNode has an ephemeral volume on a node that is a process of its own. Vigil is killed while the pod has it; pod, claim, volume and
// directory go together.
func TestClaims_FurtherNode(t *testing.T) {
	c := start(t, "--nodes", "2")
	c.apply(`
apiVersion: v1
kind: Pod
metadata: {name: scratch}
spec:
  nodeSelector: {kubernetes.io/hostname: node-2}
  terminationGracePeriodSeconds: 0
  initContainers: [{name: i, image: "demo:1", command: [demo, write, /data/x, text], volumeMounts: [{name: v, mountPath: /data}]}]
  containers: [{name: c, image: "demo:1", volumeMounts: [{name: v, mountPath: /data}]}]
  volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]
`)
	if pod := c.running("scratch"); pod.Spec.NodeName != "node-2" {
		t.Fatalf("the pod is on %s", pod.Spec.NodeName)
	}
	volumes := c.Client().CoreV1().PersistentVolumes()
	list, err := volumes.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("volumes: %+v, %v", list, err)
	}
	path := list.Items[0].Spec.Local.Path
	eventually.Nil(t, "the pod's file", func() error {
		_, err := os.Stat(filepath.Join(path, "x"))
		return err
	})
	if !strings.Contains(path, "node-2") {
		t.Errorf("the volume is in %s", path)
	}
	c.Kill()
	c.Up()
	c.Kubectl("delete", "pod", "scratch")
	volumes = c.Client().CoreV1().PersistentVolumes()
	eventually.Nil(t, "the end of the volume", func() error {
		list, err := volumes.List(context.Background(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("there is %+v", list.Items[0].ObjectMeta)
		}
		return err
	})
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("the directory is there after the volume: %v", err)
	}
}
