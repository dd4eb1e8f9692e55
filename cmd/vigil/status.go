package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"vigil/cluster"
)

func newStatus() *cobra.Command {
	var dir, output string
	command := &cobra.Command{
		Use:   "status",
		Short: "Show how the cluster of a data directory is doing",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("-o %s is not known; use text or json", output)
			}
			status, err := cluster.ReadStatus(command.Context(), dir)
			if err != nil {
				return err
			}
			out := command.OutOrStdout()
			if output == "text" {
				return printStatus(out, status)
			}
			encoder := json.NewEncoder(out)
			encoder.SetIndent("", "  ")
			return encoder.Encode(status)
		},
	}
	command.Flags().StringVar(&dir, "data-dir", cluster.DefaultDataDir(), "data directory of the cluster")
	command.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return command
}

func printStatus(out io.Writer, status *cluster.Status) error {
	state := "ready"
	if !status.Ready {
		state = "not ready"
	}
	fmt.Fprintf(out, "%s at %s, %s, data in %s\n", state, status.Server, status.Version, status.DataDir)
	for _, check := range status.Failing {
		fmt.Fprintf(out, "check %s fails\n", check)
	}
	for _, warning := range status.Warnings {
		fmt.Fprintf(out, "warning: %s\n", warning)
	}
	fmt.Fprintf(out, "pods: %d running, %d pending, %d failed, %d in all\n", status.Pods.Running, status.Pods.Pending, status.Pods.Failed, status.Pods.Total)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NODE\tREADY\tRUNTIME\tPODS")
	for _, node := range status.Nodes {
		fmt.Fprintf(table, "%s\t%t\t%s\t%d\n", node.Name, node.Ready, node.Runtime, node.Pods)
	}
	return table.Flush()
}
