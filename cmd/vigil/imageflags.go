package main

import (
	"time"

	"github.com/spf13/pflag"

	"vigil/kubelet/node"
)

// addImageFlags registers the flags about images and logs of nodes with real containers, upstream's.
func addImageFlags(flags *pflag.FlagSet, c *node.Images) {
	flags.IntVar(&c.MaxParallelPulls, "max-parallel-image-pulls", 5, "how many images are pulled at once; -1: no limit")
	flags.StringVar(&c.CredentialProviders, "image-credential-provider-config", "", "file that names the programs that know credentials of image registries")
	flags.StringVar(&c.CredentialPrograms, "image-credential-provider-bin-dir", "", "where these programs are")
	flags.IntVar(&c.HighThreshold, "image-gc-high-threshold", 85, "percent of disk usage at which unused images are removed; 100: never")
	flags.IntVar(&c.LowThreshold, "image-gc-low-threshold", 80, "percent of disk usage down to which they are removed")
	flags.DurationVar(&c.MinAge, "minimum-image-ttl-duration", 2*time.Minute, "how long an unused image stays at least")
	flags.DurationVar(&c.MaxAge, "image-maximum-gc-age", 0, "how long an unused image stays at most; 0: as long as there is space")
	flags.StringVar(&c.LogMaxSize, "container-log-max-size", "10Mi", "how large a container's log grows before it is rotated; -1: not rotated")
	flags.IntVar(&c.LogMaxFiles, "container-log-max-files", 5, "how many files of a container's log are kept, at least 2")
}
