package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"vigil/cluster"
)

func newToken() *cobra.Command {
	command := &cobra.Command{Use: "token", Short: "Make tokens by which nodes join a cluster"}
	var dir, out, server string
	var ttl time.Duration
	create := &cobra.Command{
		Use:   "create",
		Short: "Make a bootstrap token and print it, or write a kubeconfig with it for `vigil kubelet --bootstrap-kubeconfig`",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			token, kubeconfig, err := cluster.CreateToken(command.Context(), dir, ttl, server)
			if err != nil {
				return err
			}
			if out == "" {
				fmt.Println(token)
				return nil
			}
			if bytes.Contains(kubeconfig, []byte("server: https://127.0.0.1:")) {
				fmt.Fprintln(os.Stderr, "the API server listens on this machine alone: other machines need `vigil up --bind-address 0.0.0.0`, or --server")
			}
			return os.WriteFile(out, kubeconfig, 0o600)
		},
	}
	create.Flags().StringVar(&dir, "data-dir", cluster.DefaultDataDir(), "data directory of the cluster")
	create.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "how long the token is good; 0 is for ever")
	create.Flags().StringVar(&out, "kubeconfig", "", "file to write a kubeconfig with the token to")
	create.Flags().StringVar(&server, "server", "", "the API server's URL in the kubeconfig (default: one that other machines reach, if the server listens there)")
	command.AddCommand(create)
	return command
}
