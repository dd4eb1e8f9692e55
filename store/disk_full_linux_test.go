package store_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vigil/store"
	"vigil/store/storetest"
)

// TestEmbedded_DiskFull runs etcd on a file system of 64 MB, in a process and a mount namespace of its own, and
// writes until it is full: etcd must end with a sentence that says so.
func TestEmbedded_DiskFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=full %s", childEnv, t.TempDir()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "cannot mount") {
		t.Skip("mounting is not allowed here")
	}
	if err == nil || !strings.Contains(string(out), "no space left on the disk of etcd data directory") {
		t.Errorf("child: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// fillDisk returns what ended etcd.
func fillDisk(dir string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("cannot mount: %w", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		return fmt.Errorf("cannot mount: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := store.StartEmbedded(ctx, store.EmbeddedConfig{DataDir: filepath.Join(dir, "etcd"), UnsafeNoFsync: true})
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, store.Config{Embedded: e})
	if err != nil {
		return err
	}
	for n := 0; err == nil; n++ {
		wctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err = s.Create(wctx, fmt.Sprintf("/registry/secrets/%d", n), storetest.Value(n, 1<<20), 0)
		cancel()
	}
	select {
	case <-e.Done():
		e.Close()
		return e.Err()
	case <-time.After(10 * time.Second):
		return fmt.Errorf("etcd did not end, the last write said: %w", err)
	}
}
