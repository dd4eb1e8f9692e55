package kubelet_test

import (
	"testing"

	"vigil/internal/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.Main(m, "vigil/kubelet", "vigil/informer")
}
