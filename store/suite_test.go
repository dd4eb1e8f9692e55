package store_test

import (
	"testing"

	"vigil/store/storetest"
)

func TestEmbedded(t *testing.T) { storetest.Suite(t, storetest.NewTarget) }

func TestRemote(t *testing.T) { storetest.Suite(t, storetest.NewRemoteTarget) }
