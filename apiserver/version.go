package apiserver

import (
	"runtime"
	"runtime/debug"

	"k8s.io/apimachinery/pkg/version"
)

// The Kubernetes version whose behaviour is served. Helm and kubectl read it as a semantic version.
const (
	kubernetesMajor = "1"
	kubernetesMinor = "37"
	kubernetesPatch = "2"

	// KubernetesVersion is the release as nodes and clients name it.
	KubernetesVersion = "v" + kubernetesMajor + "." + kubernetesMinor + "." + kubernetesPatch
)

// versionInfo is what /version answers.
func versionInfo(own, commit string) version.Info {
	info := version.Info{
		Major:                 kubernetesMajor,
		Minor:                 kubernetesMinor,
		EmulationMajor:        kubernetesMajor,
		EmulationMinor:        kubernetesMinor,
		MinCompatibilityMajor: kubernetesMajor,
		MinCompatibilityMinor: "36",
		GitVersion:            KubernetesVersion + "+vigil-" + own,
		GitCommit:             commit,
		GitTreeState:          "clean",
		GoVersion:             runtime.Version(),
		Compiler:              runtime.Compiler,
		Platform:              runtime.GOOS + "/" + runtime.GOARCH,
	}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	for _, setting := range build.Settings {
		switch setting.Key {
		case "vcs.revision":
			if info.GitCommit == "" {
				info.GitCommit = setting.Value
			}
		case "vcs.time":
			info.BuildDate = setting.Value
		case "vcs.modified":
			if setting.Value == "true" {
				info.GitTreeState = "dirty"
			}
		}
	}
	return info
}
