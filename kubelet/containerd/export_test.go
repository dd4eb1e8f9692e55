package containerd

import (
	"context"
	"time"
)

// Process is the PID of the containerd that runs or ran with a root directory.
func Process(rootDir string) (int, error) {
	p, err := readProcess(Config{RootDir: rootDir}.processFile())
	if err != nil || p == nil {
		return 0, err
	}
	return p.PID, nil
}

// Rotate is what Run does now and then.
func (d *Daemon) Rotate() error { return rotate(d.config.logFile(), d.config.LogSize) }

// ClearState is what a power cut does to the state directory.
func (d *Daemon) ClearState(ctx context.Context) error { return d.clearState(ctx) }

// SetPatience shortens what Start waits for a containerd that runs but does not answer, and what it waits for its end.
func (d *Daemon) SetPatience(adopt, stop time.Duration) {
	d.adoptPatience, d.stopPatience = adopt, stop
}

// DefaultRegistry is where images are whose names have no host.
func DefaultRegistry() string { return defaultRegistry() }
