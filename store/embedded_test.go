package store_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vigil/store"
	"vigil/store/storetest"
)

func TestEmbedded_StartAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	var rev int64
	for i := range 3 {
		e, err := store.StartEmbedded(t.Context(), store.EmbeddedConfig{DataDir: dir, UnsafeNoFsync: true})
		if err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(t.Context(), store.Config{Embedded: e})
		if err != nil {
			t.Fatal(err)
		}
		list, err := s.List(t.Context(), "/registry/", store.ListOptions{})
		if err != nil || len(list.KVs) != i || i > 0 && list.KVs[i-1].ModRev != rev {
			t.Errorf("start %d: %d values, %v", i, len(list.KVs), err)
		}
		rev, err = s.Create(t.Context(), fmt.Sprintf("/registry/pods/default/%d", i), []byte("v"), 0)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		e.Close()
		select {
		case <-e.Done():
		default:
			t.Error("not done after Close")
		}
		if err := e.Err(); err != nil {
			t.Errorf("error after Close: %v", err)
		}
		if _, err := s.Get(t.Context(), "/registry/pods/default/0"); err == nil {
			t.Error("get works after Close")
		}
	}
}

// TestEmbedded_Errors wants one sentence for the operator for each thing that goes wrong at a start.
func TestEmbedded_Errors(t *testing.T) {
	certs := storetest.Certs(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := []struct {
		name    string
		prepare func(t *testing.T, cfg *store.EmbeddedConfig)
		want    string
	}{
		{"client port in use", func(t *testing.T, cfg *store.EmbeddedConfig) {
			cfg.ClientAddr, cfg.Client = taken.Addr().String(), certs
		}, "the address is in use: listen tcp " + taken.Addr().String()},
		{"peer port in use", func(t *testing.T, cfg *store.EmbeddedConfig) {
			cfg.PeerAddr, cfg.Peer = taken.Addr().String(), certs
		}, "the address is in use: listen tcp " + taken.Addr().String()},
		{"no certificate", func(t *testing.T, cfg *store.EmbeddedConfig) {
			cfg.ClientAddr = "127.0.0.1:0"
			cfg.Client = store.CertFiles{CAFile: "none.crt", CertFile: "none.crt", KeyFile: "none.key"}
		}, "none.crt"},
		{"directory is a file", func(t *testing.T, cfg *store.EmbeddedConfig) {
			write(t, cfg.DataDir, "x")
		}, "cannot make etcd data directory"},
		{"read-only directory", func(t *testing.T, cfg *store.EmbeddedConfig) {
			cfg.DataDir = "/proc/vigil" // nobody may write there, root included
		}, "cannot make etcd data directory"},
		{"in use", func(t *testing.T, cfg *store.EmbeddedConfig) {
			storetest.NewEmbedded(t, store.EmbeddedConfig{DataDir: cfg.DataDir})
		}, "is in use by another process"},
		{"damaged log", func(t *testing.T, cfg *store.EmbeddedConfig) {
			fillAndClose(t, cfg.DataDir)
			damage(t, cfg.DataDir, ".wal")
		}, "it may be damaged"},
		{"damaged database", func(t *testing.T, cfg *store.EmbeddedConfig) {
			fillAndClose(t, cfg.DataDir)
			damage(t, cfg.DataDir, "db")
		}, "it may be damaged"},
		{"no database", func(t *testing.T, cfg *store.EmbeddedConfig) {
			fillAndClose(t, cfg.DataDir)
			write(t, filepath.Join(cfg.DataDir, "member", "snap", "db"), "this is not a database")
		}, "it may be damaged"},
		{"damaged branch", func(t *testing.T, cfg *store.EmbeddedConfig) {
			fillAndClose(t, cfg.DataDir)
			damagePage(t, cfg.DataDir, branchPage)
		}, "member/snap/db"},
		{"damaged leaf", func(t *testing.T, cfg *store.EmbeddedConfig) {
			fillAndClose(t, cfg.DataDir)
			damagePage(t, cfg.DataDir, leafPage)
		}, "member/snap/db"},
		{"damaged entries of a leaf", func(t *testing.T, cfg *store.EmbeddedConfig) {
			fillAndClose(t, cfg.DataDir)
			damageFrom(t, cfg.DataDir, leafPage, 16) // behind its header
		}, "member/snap/db"},
		{"cut database", func(t *testing.T, cfg *store.EmbeddedConfig) {
			fillAndClose(t, cfg.DataDir)
			if err := os.Truncate(filepath.Join(cfg.DataDir, "member", "snap", "db"), 8*4096); err != nil {
				t.Fatal(err)
			}
		}, "member/snap/db"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg := store.EmbeddedConfig{DataDir: filepath.Join(t.TempDir(), "etcd"), UnsafeNoFsync: true}
			test.prepare(t, &cfg)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			e, err := store.StartEmbedded(ctx, cfg)
			if err == nil {
				e.Close()
				t.Fatal("it started")
			}
			if msg := err.Error(); !strings.Contains(msg, test.want) || strings.Contains(msg, "\n") {
				t.Errorf("error is\n%s\nwant one line with %q", msg, test.want)
			} else {
				t.Log(msg)
			}
		})
	}
}

// fillAndClose leaves data that fill the log and the database.
func fillAndClose(t *testing.T, dir string) {
	t.Helper()
	e := storetest.NewEmbedded(t, store.EmbeddedConfig{DataDir: dir})
	storetest.Fill(t, e, "/registry/pods/", 1000, 1000)
	e.Close()
}

// damage overwrites the middle half of the written part of each file with the suffix.
func damage(t *testing.T, dir, suffix string) {
	t.Helper()
	damaged := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, suffix) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		end := len(data)
		for end > 0 && data[end-1] == 0 {
			end--
		}
		for i := end / 4; i < end*3/4; i++ {
			data[i] = 0xa5
		}
		if suffix == "db" {
			copy(data, make([]byte, 8192)) // both meta pages
		}
		damaged++
		return os.WriteFile(path, data, 0o600)
	})
	if err != nil || damaged == 0 {
		t.Fatalf("damaged %d files: %v", damaged, err)
	}
}

// kinds of pages in bbolt's file format
const (
	branchPage = 0x01
	leafPage   = 0x02
)

// damagePage overwrites all pages of a kind, those that are no longer used too.
func damagePage(t *testing.T, dir string, kind byte) {
	t.Helper()
	damageFrom(t, dir, kind, 0)
}

// damageFrom does so from an offset in the page on.
func damageFrom(t *testing.T, dir string, kind byte, offset int) {
	t.Helper()
	path := filepath.Join(dir, "member", "snap", "db")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, damaged := os.Getpagesize(), 0
	for at := 2 * page; at+page <= len(data); at += page {
		header := data[at : at+16] // its number in 8 bytes, the kind in 2, how many entries, how many more pages
		if binary.NativeEndian.Uint64(header) == uint64(at/page) && binary.NativeEndian.Uint16(header[8:]) == uint16(kind) {
			for i := at + offset; i < at+page; i++ {
				data[i] = 0xa5
			}
			damaged++
		}
	}
	if damaged == 0 {
		t.Fatalf("no page of kind %#x", kind)
	}
	t.Logf("%d pages damaged", damaged)
	write(t, path, string(data))
}

func write(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}
