package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"vigil/kubelet/containerd"
	"vigil/kubelet/node"
)

// RuntimeDir is where the containerd of a node of a data directory keeps everything.
func RuntimeDir(dataDir, name string) string { return node.RuntimeDir(node.Dir(dataDir, name)) }

// ImageConfig says which nodes' images are meant.
type ImageConfig struct {
	DataDir string
	Node    string // "": all nodes that have a container runtime
	// NodeDir, when not empty, is the directory of one node, which need not belong to a data directory.
	NodeDir string
}

// Image is an image on a node.
type Image struct {
	Node   string   `json:"node"`
	Names  []string `json:"names"` // as pods would write them; empty for one that has lost its names to another
	ID     string   `json:"id"`
	Size   uint64   `json:"size"` // bytes, as stored
	Pinned bool     `json:"pinned"`
}

// nodeRuntime is the container runtime of a node.
type nodeRuntime struct {
	node string
	*containerd.Daemon
}

// runtimes finds the container runtimes that run, in the order of their nodes.
func (c ImageConfig) runtimes() ([]nodeRuntime, error) {
	if c.NodeDir != "" {
		d, err := containerd.Find(node.RuntimeDir(c.NodeDir))
		return []nodeRuntime{{cmp.Or(c.Node, filepath.Base(c.NodeDir)), d}}, err
	}
	if c.Node != "" {
		d, err := containerd.Find(RuntimeDir(c.DataDir, c.Node))
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", c.Node, err)
		}
		return []nodeRuntime{{c.Node, d}}, nil
	}
	entries, err := os.ReadDir(node.Dirs(c.DataDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, explainDataDir(c.DataDir, err)
	}
	var found []nodeRuntime
	for _, entry := range entries {
		d, err := containerd.Find(RuntimeDir(c.DataDir, entry.Name()))
		if errors.Is(err, containerd.ErrNotRunning) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", entry.Name(), err)
		}
		found = append(found, nodeRuntime{entry.Name(), d})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no node of %s runs containers now: images are imported while `vigil up` runs, as root, without --runtime simulated", c.DataDir)
	}
	return found, nil
}

// ImportImages brings the images of archives to the nodes and says on out what they are.
func ImportImages(ctx context.Context, config ImageConfig, files []string, out io.Writer) error {
	runtimes, err := config.runtimes()
	if err != nil {
		return err
	}
	for _, file := range files {
		for _, r := range runtimes {
			names, err := r.Import(ctx, file)
			if err != nil {
				return fmt.Errorf("node %s: %w", r.node, err)
			}
			fmt.Fprintf(out, "%s: imported %s\n", r.node, strings.Join(names, ", "))
		}
	}
	return nil
}

// ListImages gives the images on the nodes, in the order of nodes and names.
func ListImages(ctx context.Context, config ImageConfig) ([]Image, error) {
	runtimes, err := config.runtimes()
	if err != nil {
		return nil, err
	}
	var all []Image
	for _, r := range runtimes {
		list, err := r.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", r.node, err)
		}
		var images []Image
		for _, image := range list {
			names := make([]string, 0, len(image.RepoTags))
			for _, name := range image.RepoTags {
				names = append(names, containerd.Familiar(name))
			}
			slices.Sort(names)
			images = append(images, Image{Node: r.node, Names: names, ID: image.Id, Size: image.Size, Pinned: image.Pinned})
		}
		slices.SortFunc(images, func(a, b Image) int {
			return cmp.Or(slices.Compare(a.Names, b.Names), cmp.Compare(a.ID, b.ID))
		})
		all = append(all, images...)
	}
	return all, nil
}
