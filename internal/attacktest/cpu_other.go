//go:build !unix

package attacktest

import "time"

// cpuTime is not known here: no budget is exceeded.
func cpuTime() time.Duration { return 0 }
