package etcfiles

import (
	"bytes"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"vigil/internal/attacktest"
)

// TestAttack_Hosts: whatever a container has made of its hosts file, the next start of a container of the pod writes it anew.
func TestAttack_Hosts(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(file string) error
	}{
		{"10 TB with holes", func(file string) error { return os.Truncate(file, 10<<40) }},
		{"another text of the same length", func(file string) error {
			have, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			return os.WriteFile(file, bytes.Repeat([]byte("x"), len(have)), 0o600)
		}},
		{"nothing", func(file string) error { return os.Truncate(file, 0) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			file, pod := filepath.Join(t.TempDir(), "etc-hosts"), testPod("web", nil)
			write := func() []byte {
				if err := writeHosts(file, pod, Name{Host: "web"}, []string{"10.0.0.1"}); err != nil {
					t.Fatal(err)
				}
				content, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				return content
			}
			want := write()
			if err := tc.do(file); err != nil {
				t.Fatal(err)
			}
			attacktest.Budget{Memory: 1 << 20, CPU: time.Second}.Spend(t, func() {
				if got := write(); !bytes.Equal(got, want) {
					t.Errorf("the file is %q", got)
				}
			})
		})
	}
	t.Run("a FIFO", func(t *testing.T) { // a pod that may write to the node's directories
		file := filepath.Join(t.TempDir(), "etc-hosts")
		if err := syscall.Mkfifo(file, 0o600); err != nil {
			t.Fatal(err)
		}
		attacktest.Budget{Memory: 1 << 20, CPU: time.Second}.Spend(t, func() {
			if err := writeHosts(file, testPod("web", nil), Name{Host: "web"}, []string{"10.0.0.1"}); err == nil {
				t.Error("written")
			}
		})
	})
}
