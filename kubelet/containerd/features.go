package containerd

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
)

// Seccomp says whether runc can filter system calls. One that was built without libseccomp cannot; one that does not say is taken to be
// able to, and tells with the first container.
func (d *Daemon) Seccomp(ctx context.Context) bool {
	out, err := exec.CommandContext(ctx, filepath.Join(d.config.BinDir, "runc"), "features").Output()
	if err != nil {
		return true
	}
	var features struct { // features.md of the OCI runtime specification
		Linux *struct {
			Seccomp *struct {
				Enabled *bool `json:"enabled"`
			} `json:"seccomp"`
		} `json:"linux"`
	}
	if json.Unmarshal(out, &features) != nil || features.Linux == nil {
		return true
	}
	seccomp := features.Linux.Seccomp
	return seccomp != nil && (seccomp.Enabled == nil || *seccomp.Enabled)
}
