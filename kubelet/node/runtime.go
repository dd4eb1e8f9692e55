package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"vigil/kubelet/containerd"
)

// Runtimes that a node may have.
const (
	// RuntimeAuto is containerd where that can run, else RuntimeSimulated.
	RuntimeAuto = "auto"
	// RuntimeSimulated runs no containers: they only exist on paper.
	RuntimeSimulated = "simulated"
	// RuntimeContainerd runs real containers, by a containerd that Vigil starts, or by what is at Real.RuntimeEndpoint.
	RuntimeContainerd = "containerd"
)

// Programs is where the container runtime's programs are when nobody says otherwise: in the folder runtime beside this program.
func Programs() string {
	if self, err := os.Executable(); err == nil {
		return filepath.Join(filepath.Dir(self), "runtime")
	}
	return "runtime"
}

// CheckRuntime says which runtime a wish leads to and why, or what is wrong with the wish. Real containers need Linux, root and either
// the programs of `make runtime` or the endpoint of a runtime.
func CheckRuntime(wish string, real Real) (kind, why string, err error) {
	switch wish {
	case RuntimeSimulated:
		return RuntimeSimulated, "as asked for", nil
	case RuntimeAuto, RuntimeContainerd:
	default:
		return "", "", fmt.Errorf("--runtime %s is not known; use auto, simulated or containerd", wish)
	}
	if err := canRun(real); err != nil {
		if wish == RuntimeContainerd {
			return "", "", fmt.Errorf("--runtime containerd: %w", err)
		}
		return RuntimeSimulated, err.Error(), nil
	}
	return RuntimeContainerd, "", nil
}

func canRun(real Real) error {
	switch {
	case runtime.GOOS != "linux":
		return errors.New("real containers need Linux")
	case os.Geteuid() != 0:
		return errors.New("real containers need root")
	case real.RuntimeEndpoint != "":
		return nil
	}
	dir := real.RuntimeDir
	if dir == "" {
		dir = Programs()
	}
	if _, err := os.Stat(filepath.Join(dir, "containerd")); err != nil {
		return fmt.Errorf("there is no container runtime in %s: `make runtime` builds one", dir)
	}
	return containerd.Supported()
}
