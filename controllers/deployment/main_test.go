package deployment

import (
	"testing"

	"vigil/controllers/internal/controllertest"
)

func TestMain(m *testing.M) {
	controllertest.Main(m)
}
