package h2

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tool builds a program that tools/go.mod pins.
func tool(t *testing.T, path string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), filepath.Base(path))
	build := exec.Command("go", "build", "-C", "../tools", "-o", bin, path)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", path, err, out)
	}
	return bin
}

// TestConformance runs h2spec against the server, the strict cases too.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("builds h2spec")
	}
	bin := tool(t, "github.com/summerwind/h2spec/cmd/h2spec")
	s := start(t, &Server{
		MaxConcurrentStreams: 100, // h2spec opens one more than it is told
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, "conformance")
		}),
	})
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "--host", host, "--port", port, "--tls", "--insecure", "--strict", "--timeout", "5")
	cmd.Env = append(os.Environ(), "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("h2spec: %v\n%s", err, out)
	}
	report := string(out)
	summary := report[strings.LastIndex(strings.TrimSpace(report), "\n")+1:]
	t.Logf("h2spec: %s", strings.TrimSpace(summary))
	if !strings.Contains(summary, " 0 failed") || !strings.Contains(summary, " 0 skipped") {
		t.Errorf("not everything passed:\n%s", report)
	}
}
