package manifests

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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
		pods, err := New(dir, "node", slog.New(slog.DiscardHandler)).read()
		if err != nil || len(pods) != 1 {
			t.Errorf("read %d pods, %v", len(pods), err)
		}
	})
}
