// Package storetest starts etcd for tests, and holds the suite that every way to reach etcd must pass.
package storetest

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"vigil/store"
)

// startTimeout is generous: test machines are busy.
const startTimeout = 5 * time.Minute

// New returns a store on a fresh embedded etcd in t.TempDir(), which both end with the test. The etcd does not listen
// and does not sync to disk.
func New(t testing.TB) *store.Store {
	t.Helper()
	return NewTarget(t).Store
}

// NewRemote is New with a store that reaches the etcd over TLS on loopback.
func NewRemote(t testing.TB) *store.Store {
	t.Helper()
	return NewRemoteTarget(t).Store
}

// Target is a store and the etcd behind it.
type Target struct {
	Store  *store.Store
	Config store.Config // that opened Store
	Etcd   *store.Embedded
}

// NewTarget is New that also gives the etcd.
func NewTarget(t testing.TB) Target {
	t.Helper()
	e := NewEmbedded(t, store.EmbeddedConfig{})
	cfg := store.Config{Embedded: e}
	return Target{Store: Open(t, cfg), Config: cfg, Etcd: e}
}

// NewRemoteTarget is NewRemote that also gives the etcd.
func NewRemoteTarget(t testing.TB) Target {
	t.Helper()
	certs := Certs(t)
	e := NewEmbedded(t, store.EmbeddedConfig{ClientAddr: "127.0.0.1:0", Client: certs})
	cfg := store.Config{Endpoints: e.Endpoints(), CAFile: certs.CAFile, CertFile: certs.CertFile, KeyFile: certs.KeyFile}
	return Target{Store: Open(t, cfg), Config: cfg, Etcd: e}
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

// Fill puts n values of size bytes at prefix + "000000" and so on, many in a transaction, and returns the revision.
// The bytes look random.
func Fill(t testing.TB, e *store.Embedded, prefix string, n, size int) int64 {
	t.Helper()
	const perTxn = 100
	var rev int64
	for i := 0; i < n; {
		var ops []clientv3.Op
		for bytes := 0; i < n && len(ops) < perTxn && bytes < 1<<20; i++ {
			ops = append(ops, clientv3.OpPut(fmt.Sprintf("%s%06d", prefix, i), string(Value(i, size))))
			bytes += size
		}
		resp, err := e.Client().Txn(t.Context()).Then(ops...).Commit()
		if err != nil {
			t.Fatalf("fill %s: %v", prefix, err)
		}
		rev = resp.Header.Revision
	}
	return rev
}

// Value is the i-th value of Fill.
func Value(i, size int) []byte {
	v := make([]byte, size)
	x := uint64(i)*0x9e3779b97f4a7c15 + 1
	for j := range v {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		v[j] = byte(x)
	}
	return v
}
