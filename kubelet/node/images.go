package node

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"vigil/kubelet/cri"
	"vigil/kubelet/cri/credentials"
)

// Images says how images come to a node with real containers and go again, and how large its containers' logs grow.
type Images struct {
	MaxParallelPulls    int    // --max-parallel-image-pulls; 0: 5, negative: no limit
	CredentialProviders string // --image-credential-provider-config, a file; "": none
	CredentialPrograms  string // --image-credential-provider-bin-dir

	HighThreshold, LowThreshold int           // --image-gc-high-threshold, --image-gc-low-threshold: percent of the file system; 0: 85 and 80
	MinAge, MaxAge              time.Duration // --minimum-image-ttl-duration, 0: 2 minutes; --image-maximum-gc-age, 0: none

	LogMaxSize  string // --container-log-max-size, a quantity; "": 10Mi, "-1": logs are not rotated
	LogMaxFiles int    // --container-log-max-files; 0: 5
}

// complete puts what is configured into the runtime's configuration.
func (c *Images) complete(config cri.Config) (cri.Config, error) {
	config.MaxParallelImagePulls, config.LogMaxFiles = c.MaxParallelPulls, c.LogMaxFiles
	if c.LogMaxSize != "" {
		size, err := resource.ParseQuantity(c.LogMaxSize)
		if err != nil {
			return config, fmt.Errorf("--container-log-max-size: %w", err)
		}
		config.LogMaxSize = size.Value()
	}
	if c.LogMaxFiles == 1 || c.LogMaxFiles < 0 {
		return config, fmt.Errorf("--container-log-max-files: %d is less than 2", c.LogMaxFiles)
	}
	if c.CredentialProviders != "" {
		var err error
		if config.CredentialPlugins, err = credentials.LoadPlugins(c.CredentialProviders, c.CredentialPrograms); err != nil {
			return config, err
		}
	}
	return config, nil
}
