package containerd

import "context"

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
