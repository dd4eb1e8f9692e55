package main

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
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

// runKubectl runs kubectl as upstream's main function does and returns its exit code. Most failures end the process inside kubectl.
func runKubectl(args []string) int {
	absence := &absence{out: os.Stderr}
	if os.Getenv(clientcmd.RecommendedConfigPathEnvVar) == "" {
		admin := filepath.Join(cluster.DefaultDataDir(), "admin.conf")
		if _, err := os.Stat(admin); err == nil {
			os.Setenv(clientcmd.RecommendedConfigPathEnvVar, admin)
			absence.ours = true
		}
	}
	os.Args = append([]string{"kubectl"}, args...)
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)) // a wrong number is told by the flag itself, below
	streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
	// The flags are those of kubectl.NewDefaultKubectlCommand.
	flags := genericclioptions.NewConfigFlags(true).WithDeprecatedPasswordFlag().WithDiscoveryBurst(300).WithDiscoveryQPS(50).
		WithWarningPrinter(streams).WithWrapConfigFn(absence.tell)
	command := kubectl.NewDefaultKubectlCommandWithArgs(kubectl.KubectlOptions{
		PluginHandler: kubectl.NewDefaultPluginHandler(plugin.ValidPluginFilenamePrefixes),
		Arguments:     os.Args,
		ConfigFlags:   flags,
		IOStreams:     streams,
	})
	if err := cli.RunNoErrOutput(command); err != nil {
		util.CheckErr(err)
		return 1
	}
	return 0
}

// nowhere is the address that kubectl takes when nothing names a server.
const nowhere = "localhost:8080"

// absence says in one sentence, before kubectl says it in several, that there is no cluster.
type absence struct {
	out  io.Writer
	ours bool // the kubeconfig is the one that vigil up has written
	once sync.Once
}

// tell looks at the server that kubectl is about to talk to. It changes nothing.
func (a *absence) tell(config *rest.Config) *rest.Config {
	a.once.Do(func() {
		server, err := url.Parse(config.Host)
		switch {
		case err != nil:
		case !a.ours && (server.Host == nowhere || config.Host == nowhere):
			fmt.Fprintf(a.out, "No cluster is named: vigil up runs one; KUBECONFIG or --kubeconfig names another.\n")
		case a.ours && refused(server.Host):
			fmt.Fprintf(a.out, "No cluster answers at %s: vigil up starts the one in %s.\n", server.Host, cluster.DefaultDataDir())
		}
	})
	return config
}

// refused says whether nobody listens at an address.
func refused(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		conn.Close()
	}
	return err != nil
}
