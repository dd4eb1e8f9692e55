package test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// asNobody runs a process as an unprivileged user.
func asNobody() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}

// needRoot goes on as root only: else the test is skipped, and fails where CI is set. vigil/internal/need is for the product's tests what this
// is here.
func needRoot(t testing.TB, what string) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatalf("needs root: it %s, and where CI is set no test is skipped", what)
	}
	t.Skip("NOT TESTED: needs root: it " + what)
}

// binaryFor copies the binary to where everybody may run it.
func binaryFor(t testing.TB, user string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "vigil-"+user)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	source, err := os.Open(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	path := filepath.Join(dir, "vigil")
	target, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(target, source); err != nil {
		t.Fatal(err)
	}
	if err := target.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
