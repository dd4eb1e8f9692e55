// Package version says which Vigil this is and which Kubernetes it speaks.
package version

import (
	"runtime"

	"k8s.io/apimachinery/pkg/version"
)

// Vigil is this program's version, set by the linker.
var Vigil = "dev"

// The Kubernetes API that is served: that of the k8s.io/* modules this is built with.
const (
	Major      = "1"
	Minor      = "37"
	Kubernetes = "v1.37.2"
)

// Info is what /version answers. GitVersion parses as a semantic version; the build part names Vigil.
func Info() version.Info {
	return version.Info{
		Major:                 Major,
		Minor:                 Minor,
		EmulationMajor:        Major,
		EmulationMinor:        Minor,
		MinCompatibilityMajor: Major,
		MinCompatibilityMinor: "36",
		GitVersion:            Kubernetes + "+vigil-" + Vigil,
		GitTreeState:          "clean",
		GoVersion:             runtime.Version(),
		Compiler:              runtime.Compiler,
		Platform:              runtime.GOOS + "/" + runtime.GOARCH,
	}
}
