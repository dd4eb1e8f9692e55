//go:build unix

package credentials

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// endChild ends the process whose number a file has, if there is one.
func endChild(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		return
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Error(err)
	}
}
