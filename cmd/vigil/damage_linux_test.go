package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/internal/porttest"
)

// TestDamage: what is lost or damaged in a data directory, or is no data directory, ends the start with one sentence that says what to do, or is mended
// without a word.
func TestDamage(t *testing.T) {
	nstest.Need(t)
	whole := filepath.Join(t.TempDir(), "whole")
	port := strconv.Itoa(porttest.Free(t))
	// starts runs a start until it is ready (""), or ends: then it returns what it has printed.
	starts := func(t *testing.T, dir string) string {
		t.Helper()
		command, out := program(t, "up", "--runtime=simulated", "--nodes=0", "--data-dir="+dir, "--secure-port="+port, "--etcd-port=0", "--controller-manager-port=0", "--scheduler-port=0")
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		var failed error // once ended is closed
		go func() {
			failed = command.Wait()
			close(ended)
		}()
		t.Cleanup(func() {
			_ = command.Process.Kill() // as a rule it has ended
			<-ended
		})
		ready := false
		eventually.True(t, "it is ready, or has ended", func() bool {
			select {
			case <-ended:
				return true
			default:
				ready = strings.Contains(out.String(), "ready in")
				return ready
			}
		})
		if !ready {
			var exit *exec.ExitError
			if !errors.As(failed, &exit) || exit.ExitCode() != 1 {
				t.Errorf("ended with %v", failed)
			}
			return out.String()
		}
		_ = command.Process.Signal(syscall.SIGTERM) // it may have ended
		if <-ended; failed != nil {
			t.Errorf("ended with %v", failed)
		}
		return ""
	}
	if out := starts(t, whole); out != "" {
		t.Fatal(out)
	}
	for _, row := range []struct {
		name   string
		damage func(t *testing.T, dir string) error
		says   []string // nothing: it starts
	}{
		{"nothing", func(*testing.T, string) error { return nil }, nil},
		{"no authority", remove("pki/ca.crt", "pki/ca.key"), []string{"lost: certificate authority", "restore both from a backup", "remove DIR"}},
		{"no key of the authority", remove("pki/ca.key"), []string{"ca.key is missing", "restore both files from a backup"}},
		{"an authority of garbage", write("pki/ca.crt", "garbage"), []string{"pki/ca.crt", "damaged", "restore both files from a backup"}},
		{"no authority of etcd", remove("pki/etcd/ca.crt", "pki/etcd/ca.key"), []string{"pki/etcd/ca.crt", "restore both from a backup"}},
		{"no authority of front proxies", remove("pki/front-proxy-ca.crt", "pki/front-proxy-ca.key"), nil},
		{"no key of service accounts", remove("pki/sa.key"), []string{"lost: key DIR/pki/sa.key", "restore it from a backup; if there is none, put a new private key"}},
		{"a cut key of service accounts", write("pki/sa.key", "-----BEGIN EC PRIVATE KEY-----\nMHcC"), []string{"DIR/pki/sa.key is damaged", "put a new private key"}},
		{"no public key of service accounts", remove("pki/sa.pub"), nil},
		{"no serving certificate", remove("pki/apiserver.crt", "pki/apiserver.key"), nil},
		{"half a serving certificate", remove("pki/apiserver.crt"), nil},
		{"an empty serving certificate", write("pki/apiserver.crt", ""), []string{"pki/apiserver.crt", "damaged", "remove DIR/pki/apiserver.crt and DIR/pki/apiserver.key, and the next start makes new ones"}},
		{"no kubeconfig", remove("admin.conf", "scheduler.conf"), nil},
		{"a damaged database", write("etcd/member/snap/db", strings.Repeat("garbage ", 10_000)), []string{"DIR/etcd/member/snap/db"}},
		{"a file in its place", func(_ *testing.T, dir string) error {
			return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, nil, 0o600))
		}, []string{"DIR, or something above it, is a file; choose another with --data-dir"}},
		{"files of others", func(_ *testing.T, dir string) error {
			return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "letters.txt"), nil, 0o600))
		}, []string{"has files of others (letters.txt) and none of a cluster; choose an empty one"}},
		{"a disk that can only be read", disk(syscall.MS_RDONLY, "size=1m"), []string{"is on a read-only file system; choose another"}},
		{"a full disk at the first start", disk(0, "size=4k"), []string{"is full; free space on it or choose another"}},
		{"hardly any room at the first start", disk(0, "size=1m"), []string{"no space left on"}},
	} {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if out, err := exec.Command("cp", "-a", whole, dir).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := row.damage(t, dir); err != nil {
				t.Fatal(err)
			}
			printed := starts(t, dir)
			if len(row.says) == 0 {
				if printed != "" {
					t.Errorf("it does not start:\n%s", printed)
				}
				return
			}
			lines := strings.Split(strings.TrimSpace(printed), "\n")
			last := lines[len(lines)-1]
			for _, want := range row.says {
				if !strings.Contains(last, strings.ReplaceAll(want, "DIR", dir)) {
					t.Errorf("it says\n%s\nwant %q", printed, want)
				}
			}
			if strings.Contains(printed, "goroutine") || strings.Contains(printed, "panic") {
				t.Errorf("it prints a stack:\n%s", printed)
			}
			t.Log(last)
		})
	}
}

func remove(files ...string) func(*testing.T, string) error {
	return func(_ *testing.T, dir string) (err error) {
		for _, file := range files {
			err = errors.Join(err, os.Remove(filepath.Join(dir, file)))
		}
		return err
	}
}

func write(file, text string) func(*testing.T, string) error {
	return func(_ *testing.T, dir string) error {
		return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600)
	}
}

// disk puts a small file system without any files in the place of the data directory.
func disk(flags uintptr, options string) func(*testing.T, string) error {
	return func(t *testing.T, dir string) error {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700), syscall.Mount("tmpfs", dir, "tmpfs", flags, options)); err != nil {
			return err
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, 0); err != nil {
				t.Errorf("unmount: %v", err)
			}
		})
		return nil
	}
}
