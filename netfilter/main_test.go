package netfilter

import (
	"testing"

	"vigil/internal/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }
