package watchcache

import (
	"testing"

	"vigil/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m, "vigil/watchcache") }
