package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSubPaths(t *testing.T) {
	container := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", SubPathExpr: "logs/$(POD)"}, {Name: "w", SubPath: "as-is"}}}
	expanded, err := subPaths(container, []EnvVar{{"POD", "web-1"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := expanded.VolumeMounts[0]; got.SubPath != "logs/web-1" || got.SubPathExpr != "" {
		t.Errorf("got %+v", got)
	}
	if container.VolumeMounts[0].SubPath != "" {
		t.Error("the container was changed")
	}
	_, err = subPaths(container, []EnvVar{{"POD", ""}})
	if err == nil || err.Error() != "missing value for POD" {
		t.Errorf("an empty variable: %v", err)
	}
	plain := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{SubPath: "x"}}}
	if same, err := subPaths(plain, nil); err != nil || same != plain {
		t.Errorf("a container without expressions: %v, %v", same, err)
	}
}
