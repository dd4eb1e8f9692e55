package podspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// optedIn is a spec that uses every field of features that are off.
func optedIn() *corev1.PodSpec {
	user := func() *int64 { return new(int64(7)) }
	keys := func() []corev1.KeyToPath { return []corev1.KeyToPath{{Key: "k", Path: "p", User: user()}} }
	files := func() []corev1.DownwardAPIVolumeFile {
		return []corev1.DownwardAPIVolumeFile{{Path: "p", User: user()}}
	}
	tls, http2 := corev1.GRPCProbeMode("TLS"), corev1.HTTPProtocol("HTTP2")
	get := func() *corev1.HTTPGetAction { return &corev1.HTTPGetAction{Path: "/", Protocol: &http2} }
	hook := func() *corev1.LifecycleHandler { return &corev1.LifecycleHandler{HTTPGet: get()} }
	container := func() corev1.Container {
		return corev1.Container{
			VolumeMounts:   []corev1.VolumeMount{{Name: "v", BindMountOptions: []string{"noexec"}}},
			LivenessProbe:  &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1, Mode: &tls}}},
			ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get()}},
			StartupProbe:   &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get()}},
			Lifecycle:      &corev1.Lifecycle{PostStart: hook(), PreStop: hook()},
		}
	}
	return &corev1.PodSpec{
		SchedulingGroup:     &corev1.PodSchedulingGroup{PodGroupName: new("group")},
		EvictionResponders:  []corev1.EvictionResponder{{Name: "example.com/r"}},
		InitContainers:      []corev1.Container{container()},
		Containers:          []corev1.Container{{Name: "plain"}, container()},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(container())}},
		Volumes: []corev1.Volume{
			{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Mode: new(int32(0o700))}}},
			{VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{DefaultUser: user(), Items: keys()}}},
			{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{DefaultUser: user(), Items: keys()}}},
			{VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{DefaultUser: user(), Items: files()}}},
			{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultUser: user(), Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{Items: keys()}}, {ConfigMap: &corev1.ConfigMapProjection{Items: keys()}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: files()}}, {ServiceAccountToken: &corev1.ServiceAccountTokenProjection{User: user()}},
				{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{User: user()}}, {PodCertificate: &corev1.PodCertificateProjection{User: user()}},
			}}}},
		},
	}
}

func TestDropDisabled(t *testing.T) {
	spec := optedIn()
	warnings := DropDisabled(spec, nil, field.NewPath("spec"))
	var paths []string
	for _, w := range warnings {
		path, _, _ := strings.Cut(w, ":")
		paths = append(paths, strings.TrimPrefix(path, "spec."))
	}
	ofContainer := func(at string) []string {
		return []string{at + ".volumeMounts[0].bindMountOptions", at + ".livenessProbe.grpc.mode", at + ".readinessProbe.httpGet.protocol",
			at + ".startupProbe.httpGet.protocol", at + ".lifecycle.postStart.httpGet.protocol", at + ".lifecycle.preStop.httpGet.protocol"}
	}
	want := []string{
		"volumes[0].emptyDir.mode", "volumes[1].secret.defaultUser", "volumes[1].secret.items[0].user", "volumes[2].configMap.defaultUser",
		"volumes[2].configMap.items[0].user", "volumes[3].downwardAPI.defaultUser", "volumes[3].downwardAPI.items[0].user",
		"volumes[4].projected.defaultUser", "volumes[4].projected.sources[0].secret.items[0].user", "volumes[4].projected.sources[1].configMap.items[0].user",
		"volumes[4].projected.sources[2].downwardAPI.items[0].user", "volumes[4].projected.sources[3].serviceAccountToken.user",
		"volumes[4].projected.sources[4].clusterTrustBundle.user", "volumes[4].projected.sources[5].podCertificate.user",
	}
	want = append(want, ofContainer("initContainers[0]")...)
	want = append(want, ofContainer("containers[1]")...)
	want = append(want, ofContainer("ephemeralContainers[0]")...)
	want = append(want, "evictionResponders", "schedulingGroup")
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if again := DropDisabled(spec, nil, field.NewPath("spec")); len(again) > 0 {
		t.Errorf("not dropped: %v", again)
	}
	if got, want := warnings[0], "spec.volumes[0].emptyDir.mode: dropped, it belongs to the feature EmptyDirVolumeMode, which is off in Kubernetes 1.37"; got != want {
		t.Errorf("warning %q", got)
	}
}

// What was stored by a server that has the feature stays, and only that.
func TestDropDisabled_InUse(t *testing.T) {
	old := &corev1.PodSpec{Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Mode: new(int32(0o755))}}}}}
	spec := optedIn()
	for _, w := range DropDisabled(spec, old, field.NewPath("spec")) {
		if strings.Contains(w, "EmptyDirVolumeMode") {
			t.Error(w)
		}
	}
	if spec.Volumes[0].EmptyDir.Mode == nil || spec.SchedulingGroup != nil {
		t.Errorf("mode %v, group %v", spec.Volumes[0].EmptyDir.Mode, spec.SchedulingGroup)
	}
}

func TestDropDisabled_Cost(t *testing.T) {
	spec := &corev1.PodSpec{
		Containers: []corev1.Container{{LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{}}}, VolumeMounts: make([]corev1.VolumeMount, 3)}},
		Volumes:    []corev1.Volume{{VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: make([]corev1.VolumeProjection, 3)}}}},
	}
	if n := testing.AllocsPerRun(100, func() { DropDisabled(spec, nil, nil) }); n > 0 {
		t.Errorf("%v allocations for a pod that uses none of it", n)
	}
}
