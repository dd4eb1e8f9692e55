package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/cluster"
)

func newSecrets() *cobra.Command {
	command := &cobra.Command{Use: "secrets", Short: "Look after what is encrypted in etcd"}
	command.AddCommand(newSecretsRewrite())
	return command
}

func newSecretsRewrite() *cobra.Command {
	var config cluster.RewriteConfig
	command := &cobra.Command{
		Use:   "rewrite",
		Short: "Store every object again that is not encrypted with the newest key",
		Long: "Store every object again that is not encrypted with the newest key of --encryption-provider-config. " +
			"Wait until all API servers have that configuration; afterwards older keys can be removed from it.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if config.Kubeconfig == "" {
				config.Kubeconfig = defaultKubeconfig()
			}
			config.Out = command.OutOrStdout()
			return cluster.Rewrite(command.Context(), config)
		},
	}
	command.Flags().StringVar(&config.Kubeconfig, "kubeconfig", "", "API server and an administrator's certificate (default: $KUBECONFIG, then the data directory's)")
	command.Flags().StringSliceVar(&config.Resources, "resources", []string{"secrets"}, "resources as kubectl names them, comma separated")
	return command
}

// defaultKubeconfig is the administrator's where no other is named.
func defaultKubeconfig() string {
	if path := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); path != "" {
		return path
	}
	return filepath.Join(cluster.DefaultDataDir(), "admin.conf")
}
