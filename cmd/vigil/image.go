package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"vigil/cluster"
)

func newImage() *cobra.Command {
	var config cluster.ImageConfig
	command := &cobra.Command{
		Use:   "image",
		Short: "Bring container images to nodes without a registry, and list them",
	}
	flags := command.PersistentFlags()
	flags.StringVar(&config.DataDir, "data-dir", cluster.DefaultDataDir(), "data directory of the cluster")
	flags.StringVar(&config.Node, "node", "", "one node of it (default: all)")
	flags.StringVar(&config.NodeDir, "node-dir", "", "directory of a node (--node-dir of vigil kubelet), for nodes outside of a data directory")
	command.AddCommand(newImageImport(&config), newImageList(&config))
	return command
}

func newImageImport(config *cluster.ImageConfig) *cobra.Command {
	return &cobra.Command{
		Use:   "import FILE...",
		Short: "Import image archives: OCI image layouts or what `docker save` writes, compressed by gzip or not",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, files []string) error {
			return cluster.ImportImages(command.Context(), *config, files, command.OutOrStdout())
		},
	}
}

func newImageList(config *cluster.ImageConfig) *cobra.Command {
	var output string
	command := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List the images on the nodes",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if output != "text" && output != "json" {
				return fmt.Errorf("-o %s is not known; use text or json", output)
			}
			images, err := cluster.ListImages(command.Context(), *config)
			if err != nil {
				return err
			}
			out := command.OutOrStdout()
			if output == "text" {
				return printImages(out, images)
			}
			encoder := json.NewEncoder(out)
			encoder.SetIndent("", "  ")
			return encoder.Encode(images)
		},
	}
	command.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	return command
}

func printImages(out io.Writer, images []cluster.Image) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "NODE\tIMAGE\tID\tSIZE")
	for _, image := range images {
		id := strings.TrimPrefix(image.ID, "sha256:")
		names := image.Names
		if len(names) == 0 {
			names = []string{"<none>"}
		}
		for _, name := range names {
			fmt.Fprintf(table, "%s\t%s\t%s\t%.1fMB\n", image.Node, name, id[:min(len(id), 13)], float64(image.Size)/1e6)
		}
	}
	return table.Flush()
}
