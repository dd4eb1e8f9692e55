package cluster

import (
	"cmp"
	"context"
	"errors"

	"vigil/kubelet/node"
)

// RunKubeletAlone runs the node of `vigil kubelet`. It marks the data directory as Vigil's, so that `vigil down` knows it; that of a `vigil up`, which
// runs at the same time, is marked already.
func RunKubeletAlone(ctx context.Context, config node.Config) error {
	config.Version = KubernetesVersion
	if kind, _, err := node.CheckRuntime(cmp.Or(config.Runtime, node.RuntimeAuto), config.Real); err == nil && kind != node.RuntimeSimulated {
		dir, err := openDataDir(cmp.Or(config.Real.DataDir, DefaultDataDir()))
		if err == nil {
			defer dir.Close()
		} else if !errors.Is(err, errInUse) {
			return err
		}
	}
	return node.Run(ctx, config)
}
