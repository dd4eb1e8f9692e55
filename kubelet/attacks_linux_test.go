package kubelet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/internal/attacktest"
)

// TestAttack_SubPathExpr: a path of references is no longer than a path may be, and costs no more.
func TestAttack_SubPathExpr(t *testing.T) {
	env := []EnvVar{{Name: "L", Value: strings.Repeat("x", 100<<10)}, {Name: "E"}}
	for i := range 20_000 {
		env = append(env, EnvVar{Name: fmt.Sprint("V", i), Value: "x"})
	}
	for _, tc := range []struct{ expression, says string }{
		{strings.Repeat("$(L)", 200_000), "more than 4096 bytes"},
		{strings.Repeat("$(V19999)", 100_000), "more than 4096 bytes"},
		{strings.Repeat("$(E)", 200_000), "missing value for E"},
	} {
		attacktest.Budget{Memory: 8 << 20, CPU: 2 * time.Second}.Spend(t, func() {
			container := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPathExpr: tc.expression}}}
			if _, err := subPaths(container, env); err == nil || !strings.Contains(err.Error(), tc.says) || len(err.Error()) > 200 {
				t.Errorf("%.20s...: %.200v", tc.expression, err)
			}
		})
	}
}
