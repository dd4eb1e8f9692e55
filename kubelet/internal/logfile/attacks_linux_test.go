package logfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"vigil/internal/attacktest"
)

// TestAttack_Copy: a pod that may write to the directory of logs puts there what is no log, for the next who wants to read it.
func TestAttack_Copy(t *testing.T) {
	for _, tc := range []struct {
		name string
		make func(file string) error
		tail int64
	}{
		{"a FIFO", func(file string) error { return syscall.Mkfifo(file, 0o600) }, -1},
		{"a link to what the node keeps", func(file string) error { return os.Symlink("/etc/passwd", file) }, -1},
		{"a directory", func(file string) error { return os.Mkdir(file, 0o700) }, -1},
		{"10 TB of one line", sparse, -1},
		{"the end of 10 TB of one line", sparse, 10},
		{"the end of 10 TB of one line behind an entry", func(file string) error {
			if err := sparse(file); err != nil {
				return err
			}
			f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("\n" + entry(1, "stdout F x"))
			return err
		}, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "0.log")
			if err := tc.make(file); err != nil {
				t.Fatal(err)
			}
			attacktest.Budget{Memory: 8 << 20, CPU: 2 * time.Second}.Spend(t, func() {
				var out bytes.Buffer
				if err := Copy(t.Context(), &out, file, Options{Tail: tc.tail, Stdout: true, Stderr: true}); err == nil || out.Len() > 0 {
					t.Errorf("%d bytes, %v", out.Len(), err)
				}
			})
		})
	}
	t.Run("an entry as long as it may be, without end", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "0.log")
		write(t, file, strings.Repeat(strings.TrimSuffix(entry(1, "stdout P "+strings.Repeat("x", 16<<10)), "\n")+"\n", 2000))
		attacktest.Budget{Memory: 8 << 20, CPU: 5 * time.Second}.Spend(t, func() {
			written := counter(0)
			if err := Copy(t.Context(), &written, file, Options{Tail: -1, Stdout: true}); err != nil || written != 2000*16<<10 {
				t.Errorf("%d bytes, %v", written, err)
			}
		})
	})
}

func sparse(file string) error {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	return os.Truncate(file, 10<<40)
}

// counter counts what is written.
type counter int

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
