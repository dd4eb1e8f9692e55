package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"vigil/cluster"
)

func newDown() *cobra.Command {
	config := cluster.DownConfig{Out: os.Stdout}
	var logs logFlags
	command := &cobra.Command{
		Use:   "down",
		Short: "Stop everything that runs of a cluster; its data stays",
		Long: "Stop everything that runs of the cluster in --data-dir: vigil up, pods, container runtimes. Mounts, network namespaces, links, packet rules " +
			"and cgroups go, also those that a killed process has left behind. The data stays: vigil up carries on.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if config.Logger, err = logs.logger(); err != nil {
				return err
			}
			return cluster.Down(command.Context(), config)
		},
	}
	addDown(command, &config)
	logs.add(command.Flags())
	return command
}

func newReset() *cobra.Command {
	config := cluster.DownConfig{Out: os.Stdout}
	var logs logFlags
	var yes bool
	command := &cobra.Command{
		Use:   "reset",
		Short: "Stop a cluster and remove its data",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if config.Logger, err = logs.logger(); err != nil {
				return err
			}
			confirm := func(question string) (bool, error) { return ask(os.Stdin, os.Stdout, question) }
			if yes {
				confirm = nil
			}
			return cluster.Reset(command.Context(), config, confirm)
		},
	}
	addDown(command, &config)
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	logs.add(command.Flags())
	return command
}

func addDown(command *cobra.Command, config *cluster.DownConfig) {
	command.Flags().StringVar(&config.DataDir, "data-dir", cluster.DefaultDataDir(), "where everything of the cluster is kept")
	command.Flags().StringVar(&config.RuntimeDir, "runtime-dir", "", "programs of the container runtime (default: those that nodes were started with)")
}

// ask asks a person; no answer is no.
func ask(in io.Reader, out io.Writer, question string) (bool, error) {
	fmt.Fprint(out, question+" [y/N] ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	if errors.Is(err, io.EOF) && answer == "" {
		fmt.Fprintln(out)
		return false, errors.New("there is nobody to ask; say --yes")
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}
