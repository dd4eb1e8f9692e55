package main

import (
	"context"

	"github.com/spf13/cobra"

	"vigil/cluster"
)

// newNode is how `vigil up` runs nodes in network namespaces. People have `vigil kubelet`.
func newNode() *cobra.Command {
	var file string
	var logs logFlags
	command := &cobra.Command{
		Use:    "node",
		Short:  "Run a node as vigil up has written it down",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(command *cobra.Command, _ []string) error {
			logger, err := logs.logger()
			if err != nil {
				return err
			}
			return cluster.Alone(command.Context(), func(ctx context.Context) error { return cluster.RunNode(ctx, file, logger) })
		},
	}
	command.Flags().StringVar(&file, "config", "", "the node's configuration")
	logs.add(command.Flags())
	return command
}
