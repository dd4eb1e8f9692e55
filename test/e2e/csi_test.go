package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/internal/eventually"
	"vigil/kubelet/csi/csitest"
)

// TestCSI has a driver of the Container Storage Interface bring a volume to a pod, and take it away: a volume that must be attached,
// which the test does in place of the driver's attacher.
func TestCSI(t *testing.T) {
	c := start(t)
	client := c.Client()
	driver := csitest.NewDriver(t, csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
	driver.Serve(t, filepath.Join(c.DataDir, "nodes", "node-1", "kubelet"))
	eventually.Nil(t, "the driver is in the CSINode", func() error {
		node, err := client.StorageV1().CSINodes().Get(t.Context(), "node-1", metav1.GetOptions{})
		if err != nil || len(node.Spec.Drivers) != 1 || node.Spec.Drivers[0].Name != csitest.Name {
			return fmt.Errorf("%+v, %v", node, err)
		}
		return nil
	})
	c.apply(`{apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: ` + csitest.Name + `}, spec: {attachRequired: true}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: "",
  persistentVolumeReclaimPolicy: Retain, csi: {driver: ` + csitest.Name + `, volumeHandle: d1}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: disk, resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: writer}, spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: data}}],
  containers: [{name: c, image: "demo:1", args: [sh, -c, "write /data/file hello; sleep 1000"], volumeMounts: [{name: v, mountPath: /data}]}]}}
`)
	attachments := client.StorageV1().VolumeAttachments()
	name := ""
	eventually.Nil(t, "the volume is to be attached", func() error {
		list, err := attachments.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return fmt.Errorf("%v, %v", list, err)
		}
		name = list.Items[0].Name
		return nil
	})
	if len(driver.Staged().GetVolumeId()) > 0 {
		t.Error("the volume was staged before it was attached")
	}
	if _, err := attachments.Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":{"attached":true}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	c.running("writer")
	dir, err := driver.Volume("d1")
	if err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "the pod has written to the driver's volume", func() error {
		text, err := os.ReadFile(filepath.Join(dir, "file"))
		if err != nil || string(text) != "hello" && string(text) != "hello\n" {
			return fmt.Errorf("%q, %v", text, err)
		}
		return nil
	})
	c.Kubectl("delete", "pod", "writer", "--grace-period=1")
	eventually.Nil(t, "the volume is detached", func() error {
		list, err := attachments.List(context.Background(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 0 {
			return fmt.Errorf("%v, %v", list, err)
		}
		return nil
	})
	want := map[string]int{"stage": 1, "publish": 1, "unpublish": 1, "unstage": 1}
	for _, call := range driver.Seen() {
		want[call]--
	}
	for call, left := range want {
		if left != 0 {
			t.Errorf("%s was called %d times more or less than once", call, -left)
		}
	}
}
