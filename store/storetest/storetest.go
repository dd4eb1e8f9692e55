// Package storetest starts etcd for tests, and holds the suite that every way to reach etcd must pass.
package storetest

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/storage/wal"

	"vigil/store"
)

// startTimeout is generous: test machines are busy.
const startTimeout = 30 * time.Second

// New returns a store on a fresh embedded etcd in t.TempDir(), which both end with the test. The etcd does not listen
// and does not sync to disk.
func New(t testing.TB) *store.Store {
	t.Helper()
	return Open(t, store.Config{Embedded: NewEmbedded(t, store.EmbeddedConfig{})})
}

// Open opens a store that is closed at the end of the test.
func Open(t testing.TB, cfg store.Config) *store.Store {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

// NewEmbedded starts an etcd that is closed at the end of the test, in t.TempDir() unless cfg names a directory, and
// without syncing to disk.
func NewEmbedded(t testing.TB, cfg store.EmbeddedConfig) *store.Embedded {
	t.Helper()
	smallFiles()
	if cfg.DataDir == "" {
		cfg.DataDir = filepath.Join(t.TempDir(), "etcd")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	cfg.UnsafeNoFsync = true
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	e, err := store.StartEmbedded(ctx, cfg)
	if err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	t.Cleanup(e.Close)
	return e
}

// smallFiles makes etcd preallocate 1 MiB instead of 64 MiB for each log file: on some file systems that takes the
// space, or the time, of all of it.
var smallFiles = sync.OnceFunc(func() { wal.SegmentSizeBytes = 1 << 20 })
