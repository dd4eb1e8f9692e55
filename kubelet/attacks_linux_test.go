package kubelet

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/internal/attacktest"
)

// TestAttack_Manifests: a pod that may write to the directory of manifests keeps the kubelet from none of the others there.
func TestAttack_Manifests(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(syscall.Mkfifo(at("fifo.yaml"), 0o600))
	must(os.WriteFile(at("sparse.yaml"), nil, 0o600))
	must(os.Truncate(at("sparse.yaml"), 10<<40))
	must(os.Symlink("/dev/zero", at("endless.yaml")))
	must(os.Symlink("round.yaml", at("round.yaml")))
	must(os.Mkdir(at("..data"), 0o700))
	must(os.WriteFile(at("..data/good.yaml"), []byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "good"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`), 0o600))
	must(os.Symlink("..data/good.yaml", at("good.yaml")))
	attacktest.Budget{Memory: 8 << 20, CPU: 2 * time.Second}.Spend(t, func() {
		pods, err := newManifests(dir, "node", slog.New(slog.DiscardHandler)).read()
		if err != nil || len(pods) != 1 {
			t.Errorf("read %d pods, %v", len(pods), err)
		}
	})
}

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
