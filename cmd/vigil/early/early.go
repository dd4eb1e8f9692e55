// Package early keeps kubectl's translations out of every process that is not kubectl. Packages of kubectl translate their help texts
// while the program is initialized, and the first of them loads all texts, in whatever language: 28 ms of CPU and 4 MB.
//
// What decides about that must be initialized before those packages, and Go initializes packages in the order of their paths, as far as
// imports allow (Go specification, "Program initialization"). So this one is a module of its own, with a path that comes before k8s.io/kubectl.
package early

import (
	"os"
	"path/filepath"

	"k8s.io/kubectl/pkg/util/i18n"
)

func init() {
	if kubectl(os.Args) {
		return
	}
	if err := i18n.SetLoadTranslationsFunc(func() error { return nil }); err != nil {
		panic(err) // another package was initialized before
	}
}

// kubectl says whether a command line runs kubectl: `vigil kubectl ...`, or the program under the name kubectl.
func kubectl(args []string) bool {
	return len(args) > 0 && filepath.Base(args[0]) == "kubectl" || len(args) > 1 && args[1] == "kubectl"
}
