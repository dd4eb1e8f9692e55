package containerd

import (
	"testing"

	"vigil/kubelet/containerd/internal/archive"
)

func TestFamiliar(t *testing.T) {
	for _, name := range []string{"demo", "demo:1", "team/demo:1", "a.test/demo:1", "a.test:5000/b/demo"} {
		full, err := archive.Normalise(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := Familiar(full); got != name {
			t.Errorf("Familiar(%s) = %s, want %s", full, got, name)
		}
	}
}
