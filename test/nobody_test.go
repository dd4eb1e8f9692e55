package test

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"vigil/internal/built"
)

// asNobody runs a process as an unprivileged user.
func asNobody() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
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
	source, err := os.Open(built.Program(t))
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
