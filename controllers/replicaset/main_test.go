package replicaset

import (
	"testing"

	"vigil/internal/leaktest"
)

func TestMain(m *testing.M) {
	leaktest.Main(m, "vigil/controllers", "vigil/informer")
}
