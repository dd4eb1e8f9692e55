package scheduler_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"vigil/controllers/persistentvolume"
	"vigil/informer"
	"vigil/internal/eventually"
)

// binder runs the controller that binds claims.
func (c cluster) binder() {
	c.Helper()
	logger := slog.New(slog.NewTextHandler(c.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	factory, err := informer.NewFactory(c.server.Admin(), informer.Config{Logger: logger})
	if err != nil {
		c.Fatal(err)
	}
	controller := persistentvolume.New(persistentvolume.Config{Client: c.client, Informers: factory, Recorder: &record.FakeRecorder{}, Logger: logger})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- factory.Run(ctx) }()
	go func() { done <- controller.Run(ctx) }()
	c.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-done; !errors.Is(err, context.Canceled) {
				c.Errorf("ended: %v", err)
			}
		}
	})
}

func (c cluster) class(name, provisioner string, change func(*storagev1.StorageClass)) {
	c.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}
	if change != nil {
		change(class)
	}
	if _, err := c.client.StorageV1().StorageClasses().Create(c.Context(), class, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func (c cluster) claim(name, class string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	c.Helper()
	claim, err := c.client.CoreV1().PersistentVolumeClaims("default").Create(c.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{mode},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		c.Fatal(err)
	}
	return claim
}

// volume makes a volume for nodes with the label kubernetes.io/hostname=HOST; "": for all.
func (c cluster) volume(name, class, host string, change func(*corev1.PersistentVolume)) {
	c.Helper()
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity:               corev1.ResourceList{"storage": resource.MustParse("1Gi")},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
	}}
	if host != "" {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{host}}},
		}}}}
	}
	if change != nil {
		change(pv)
	}
	if _, err := c.client.CoreV1().PersistentVolumes().Create(c.Context(), pv, metav1.CreateOptions{}); err != nil {
		c.Fatal(err)
	}
}

func claims(names ...string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		for _, name := range names {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
	}
}

func host(name string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelHostname: name} }
}

func TestVolumes_Static(t *testing.T) {
	c := start(t)
	c.binder()
	c.node("a", "4", host("a"))
	c.node("b", "4", host("b"))
	c.class("disks", "kubernetes.io/no-provisioner", nil)
	c.pod("first", "100m", claims("one"))
	c.refused("first", `0/2 nodes are available: persistentvolumeclaim "one" not found.`)
	c.hasEvent("first", corev1.EventTypeWarning, "FailedScheduling", `0/2 nodes are available: persistentvolumeclaim "one" not found.`)
	c.claim("one", "disks", corev1.ReadWriteOnce)
	c.refused("first", "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.")
	c.volume("disk-b", "disks", "b", nil)
	c.bound("first", "b")
	claim, err := c.client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "one", metav1.GetOptions{})
	if err != nil || claim.Spec.VolumeName != "disk-b" || claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("the claim of a bound pod: %+v, %v", claim, err)
	}

	c.pod("second", "100m", func(p *corev1.Pod) {
		claims("one")(p)
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "a"}
	})
	c.refused("second", "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, 1 node(s) didn't match Pod's node affinity/selector.")

	// Two pods, two claims, one volume on each node: none is promised twice.
	for _, name := range []string{"two", "three"} {
		c.claim(name, "disks", corev1.ReadWriteOnce)
		c.pod(name, "100m", claims(name))
	}
	c.volume("disk-b2", "disks", "b", nil)
	c.volume("disk-a", "disks", "a", nil)
	nodes := map[string]bool{}
	for _, name := range []string{"two", "three"} {
		nodes[c.wait(name, "is bound", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }).Spec.NodeName] = true
	}
	if !nodes["a"] || !nodes["b"] {
		t.Errorf("pods are on %v", nodes)
	}

	c.claim("eager", "", corev1.ReadWriteOnce)
	c.pod("impatient", "100m", claims("eager"))
	c.refused("impatient", "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.")
	c.volume("any", "", "", nil)
	c.wait("impatient", "is bound", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" })
}

// TestVolumes_Provisioned has a provisioner that first finds a node no good.
func TestVolumes_Provisioned(t *testing.T) {
	c := start(t)
	c.binder()
	c.node("a", "4", host("a"))
	c.class("made", "example.com/p", func(class *storagev1.StorageClass) {
		class.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{Key: corev1.LabelHostname, Values: []string{"b"}}}}}
	})
	claim := c.claim("one", "made", corev1.ReadWriteOnce)
	c.pod("p", "100m", claims("one"))
	c.pod("q", "100m", claims("one")) // the same claim: both go to the same node
	c.refused("p", "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind.")
	c.node("b", "4", host("b"))
	selected := func() {
		t.Helper()
		eventually.True(t, "a node is selected", func() bool {
			now, err := c.client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "one", metav1.GetOptions{})
			return err == nil && now.Annotations["volume.kubernetes.io/selected-node"] == "b"
		})
	}
	selected()
	if _, err := c.client.CoreV1().PersistentVolumeClaims("default").Patch(t.Context(), "one", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":null}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "a pod says so", func() bool {
		events, err := c.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "reason=FailedScheduling"})
		if err != nil {
			t.Fatal(err)
		}
		for i := range events.Items {
			if events.Items[i].Message == `running PreBind plugin "VolumeBinding": binding volumes: selectedNode annotation reset for PVC "one"` {
				return true
			}
		}
		return false
	})
	selected() // again
	c.volume("pvc-one", "made", "b", func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: "one", UID: claim.UID}
	})
	c.bound("p", "b")
	c.bound("q", "b")
}

func TestVolumes_ForOnePodOnly(t *testing.T) {
	c := start(t)
	c.binder()
	c.node("a", "4", func(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "x"} })
	exclusive := func(pv *corev1.PersistentVolume) {
		pv.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	}
	c.volume("v", "", "", exclusive)
	c.volume("far", "far", "", func(pv *corev1.PersistentVolume) {
		exclusive(pv)
		pv.Labels = map[string]string{corev1.LabelTopologyZone: "y__z"}
	})
	c.claim("one", "", corev1.ReadWriteOncePod)
	c.claim("remote", "far", corev1.ReadWriteOncePod)
	c.pod("p", "100m", claims("one"))
	c.bound("p", "a")
	c.pod("q", "100m", claims("one"))
	c.refused("q", "0/1 nodes are available: 1 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode.")
	c.pod("r", "100m", claims("remote"))
	c.refused("r", "0/1 nodes are available: 1 node(s) had no available volume zone.")
	if err := c.client.CoreV1().Pods("default").Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	c.bound("q", "a")
}
