package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"vigil/cluster"
	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/internal/porttest"
)

// TestFullDisk: another process fills the disk of a running cluster. kubectl says in one sentence what to do, deletes go on, `vigil status` and
// /readyz warn, and when there is room again all goes on by itself.
func TestFullDisk(t *testing.T) {
	nstest.Need(t)
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := disk(0, "size=192m")(t, dir); err != nil {
		t.Fatal(err)
	}
	command, out := program(t, "up", "--runtime=simulated", "--nodes=1", "--data-dir="+dir, "--secure-port="+strconv.Itoa(porttest.Free(t)), "--etcd-port=0", "--controller-manager-port=0", "--scheduler-port=0")
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := <-ended; err != nil {
			t.Errorf("vigil up ended with %v", err)
		}
	})
	kubectl := func(args ...string) (string, int) {
		t.Helper()
		stdout, stderr, code := asKubectl(t, []string{cluster.DataDirVariable + "=" + dir}, args...)
		return stdout + stderr, code
	}
	eventually.True(t, "the cluster is ready", func() bool { return strings.Contains(out.String(), "ready in") })
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, bytes.Repeat([]byte("x"), 900_000), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, code := kubectl("create", "configmap", "before", "--from-file", big); code != 0 {
		t.Fatal(text)
	}
	other := filepath.Join(dir, "other")
	if err := os.WriteFile(other, make([]byte, 256<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}

	var text string
	eventually.Nil(t, "a create is refused", func() error {
		var code int
		began := time.Now()
		if text, code = kubectl("create", "configmap", "big-"+strconv.FormatInt(began.UnixNano(), 10), "--from-file", big); code == 1 {
			t.Logf("kubectl printed after %v: %s", time.Since(began), text)
			return nil
		}
		return errors.New(text)
	})
	if lines := strings.Split(strings.TrimSpace(text), "\n"); len(lines) != 1 ||
		!strings.Contains(text, "no space is left where the cluster keeps its objects; delete objects that are not needed, or free space on the disk of etcd") {
		t.Errorf("kubectl printed\n%s", text)
	}
	const warning = "etcd-space the disk of etcd is full (0 MiB free): creates, and updates that make objects larger, are refused, all else goes on; " +
		"delete objects that are not needed, or free space on it\n"
	if text, _ := kubectl("get", "--raw", "/readyz?verbose"); !strings.Contains(text, "[!]"+warning) || !strings.Contains(text, "readyz check passed") {
		t.Errorf("/readyz says\n%s", text)
	}
	status, printed := program(t, "status", "--data-dir="+dir)
	if err := status.Run(); err != nil || !strings.Contains(printed.String(), "warning: "+warning) {
		t.Errorf("vigil status: %v", err)
	}
	if text, code := kubectl("delete", "configmap", "before"); code != 0 {
		t.Errorf("delete: %s", text)
	}

	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "a create is accepted", func() error {
		if text, code := kubectl("create", "configmap", "after", "--from-file", big); code != 0 && !strings.Contains(text, "already exists") {
			return errors.New(text)
		}
		return nil
	})
	eventually.Nil(t, "the warning is gone", func() error {
		if text, _ := kubectl("get", "--raw", "/readyz?verbose"); strings.Contains(text, "etcd-space") {
			return errors.New(text)
		}
		return nil
	})
	if text, code := kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s"); code != 0 {
		t.Errorf("the node: %s", text)
	}
}
