// Package containerdtest gives tests a container runtime of their own.
//
//	func TestMain(m *testing.M) { nstest.Main(m) }
//
//	func TestX(t *testing.T) {
//		runtime := containerdtest.Start(t)
//		... runtime.Endpoint() ...
//	}
//
// It runs in the namespaces that nstest makes, where tests are root; elsewhere they are skipped. Pods' cgroups belong below
// nstest.CgroupRoot. The images vigil.internal/pause:1 and demo (also demo:1, demo:2, demo:3) are there.
package containerdtest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"testing"

	"vigil/internal/built"
	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/kubelet/containerd"
)

// BinDir is where the runtime's programs are: $VIGIL_RUNTIME, else bin/runtime in the repository. The test is skipped without
// namespaces, and fails when the programs have not been built.
func BinDir(t testing.TB) string {
	t.Helper()
	nstest.Need(t)
	return built.RuntimeDir(t)
}

// Config is a configuration for a test: everything in temporary directories, containerd's own log shown when the test fails.
func Config(t testing.TB) containerd.Config {
	t.Helper()
	binDir := BinDir(t)
	stateDir, err := os.MkdirTemp("/run", "ctd-") // sockets want short names
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(stateDir) })
	if err := os.Chmod(stateDir, 0o711); err != nil { // users of pods that have their own pass through
		t.Fatal(err)
	}
	return containerd.Config{
		BinDir: binDir, RootDir: t.TempDir(), StateDir: stateDir,
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, nil)),
	}
}

// Start runs a daemon until the test ends, with the images loaded and no network configured. Then every container is gone.
func Start(t testing.TB) *containerd.Daemon {
	t.Helper()
	return StartWith(t, Config(t))
}

// StartWith is Start with a configuration that Config has made and the test has changed.
func StartWith(t testing.TB, config containerd.Config) *containerd.Daemon {
	t.Helper()
	d, err := containerd.New(config)
	if err != nil {
		t.Fatal(err)
	}
	// Registered before anything is started, so that it runs whatever happens below.
	t.Cleanup(func() {
		if t.Failed() {
			if log, err := os.ReadFile(d.LogFile()); err == nil {
				t.Logf("containerd's log:\n%s", log[max(0, len(log)-16<<10):])
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
		defer cancel()
		if err := d.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	defer cancel()
	if err := d.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.Load(ctx); err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(run) }()
	t.Cleanup(func() { // before Stop above, or containerd would be started again
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return d
}

// testWriter sends a logger's lines to the test's.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(line []byte) (int, error) {
	w.t.Log(string(line[:len(line)-1]))
	return len(line), nil
}
