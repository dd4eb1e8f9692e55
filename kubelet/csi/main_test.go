package csi_test

import (
	"testing"

	"vigil/internal/leaktest"
	"vigil/internal/nstest"
)

func TestMain(m *testing.M) {
	nstest.Enter()
	leaktest.Main(m, "vigil/kubelet")
}
