//go:build unix

package credentials

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"vigil/internal/attacktest"
)

// TestAttack_Plugin: a program that prints without end, or leaves a child that does not, costs a bounded time and memory.
func TestAttack_Plugin(t *testing.T) {
	for _, tc := range []struct{ name, script, says string }{
		{"prints without end", "yes | head -c 200000000", "more than"},
		{"complains without end", "yes | head -c 200000000 >&2; exit 1", "error execing"},
		{"leaves a child with its output", "sleep 1000 & echo $! > $0.pid; exit 1", "error execing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			program := filepath.Join(dir, "one")
			if err := os.WriteFile(program, []byte("#!/bin/sh\n"+tc.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { endChild(t, program+".pid") })
			plugins, err := LoadPlugins(configuration(t, one), dir)
			if err != nil {
				t.Fatal(err)
			}
			attacktest.Budget{Memory: 8 << 20, CPU: 5 * time.Second}.Spend(t, func() {
				err := plugins.AddTo(t.Context(), &Keyring{}, "registry.example.com/image")
				if err == nil || !strings.Contains(err.Error(), tc.says) || len(err.Error()) > complaintsLimit+1000 {
					t.Errorf("failed with %.200v", err)
				}
			})
		})
	}
}
