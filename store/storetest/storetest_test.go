package storetest_test

import (
	"errors"
	"testing"
	"time"

	"vigil/store"
	"vigil/store/storetest"
)

func TestNew(t *testing.T) {
	start := time.Now()
	s := storetest.New(t)
	t.Logf("started in %v", time.Since(start))
	rev, err := s.Create(t.Context(), "/registry/pods/default/a", []byte("v"), 0)
	if err != nil {
		t.Fatal(err)
	}
	kv, err := s.Get(t.Context(), "/registry/pods/default/a")
	if err != nil || string(kv.Value) != "v" || kv.ModRev != rev {
		t.Fatalf("get after create at %d: %+v, %v", rev, kv, err)
	}
	if _, err := s.Get(t.Context(), "/registry/pods/default/b"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("get of nothing: %v", err)
	}
}
