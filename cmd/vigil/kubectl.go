package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	"vigil/cluster"
)

// newKubectl is there for the help only: main hands `vigil kubectl` to the real command before cobra sees it.
func newKubectl() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl",
		Short:              "The real kubectl, pointed at this cluster unless KUBECONFIG or --kubeconfig says otherwise",
		DisableFlagParsing: true,
		Run:                func(_ *cobra.Command, args []string) { os.Exit(runKubectl(args)) },
	}
}

// runKubectl runs kubectl and returns its exit code. Most failures end the process inside kubectl.
func runKubectl(args []string) int {
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		admin := filepath.Join(cluster.DefaultDataDir(), "admin.conf")
		if _, err := os.Stat(admin); err == nil {
			os.Setenv(clientcmd.RecommendedConfigPathEnvVar, admin)
		}
	}
	os.Args = append([]string{"kubectl"}, args...)
	if err := kubectl.NewDefaultKubectlCommand().Execute(); err != nil {
		util.CheckErr(err)
		return 1
	}
	return 0
}
