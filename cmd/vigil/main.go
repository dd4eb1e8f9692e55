// Command vigil is a Kubernetes control plane and node in one binary. Each subcommand has a file of its own; called
// by the name of an upstream component (kube-apiserver, kubelet ...) it is that component.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	_ "early" // before kubectl's packages
	"early/collect"
	"github.com/spf13/cobra"

	"vigil/cluster"
)

// version is this program's own, set by the linker.
var version = "dev"

// components maps the names under which upstream's binaries are called to subcommands.
var components = map[string]string{
	"kube-apiserver":          "apiserver",
	"kube-controller-manager": "controller-manager",
	"kube-scheduler":          "scheduler",
	"kubelet":                 "kubelet",
	"kubectl":                 "kubectl",
}

func main() {
	collect.AsUsual()
	args := os.Args[1:]
	if name, ok := components[filepath.Base(os.Args[0])]; ok {
		args = append([]string{name}, args...)
	}
	if len(args) > 0 && args[0] == "kubectl" {
		os.Exit(runKubectl(args[1:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	root := newRoot()
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "vigil: "+err.Error())
		os.Exit(1)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "vigil",
		Short:         "A Kubernetes control plane and node in one binary",
		Version:       version + " (Kubernetes " + cluster.KubernetesVersion + ")",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newUp(), newDown(), newReset(), newAPIServer(), newControllerManager(), newScheduler(), newKubelet(), newNode(), newSecrets(), newCerts(), newToken(), newStatus(), newImage(), newKubectl())
	return root
}
