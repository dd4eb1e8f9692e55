// Package collect lets garbage lie while the program is initialized: nearly all that packages allocate then stays, so that collecting it
// frees nothing. Go's least heap would have three collections in these 10 MB, a third of the CPU that a process needs until main begins.
//
// It imports no more than it must, so that Go initializes it before nearly all that allocates: see package early.
package collect

import (
	"os"
	"runtime/debug"
)

// percent is the GOGC while the program is initialized. It leaves the least heap room for all that, and bounds what it is wrong about.
const percent = 400

var before = begin()

func begin() int {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return percent // somebody else decides
	}
	return debug.SetGCPercent(percent)
}

// AsUsual restores Go's own rule. main calls it first.
func AsUsual() {
	if before != percent {
		debug.SetGCPercent(before)
	}
}
