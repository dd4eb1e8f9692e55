package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"vigil/kubelet/network"
	"vigil/kubelet/node"
	"vigil/pki"
)

// furtherNodes are the nodes with real containers that a machine has beside itself: for each a network namespace that outlives
// this process, and in it a process `vigil node` with a containerd of its own. The first node is the machine itself, in this process.
//
// Kubelets end with this process and are started again by the next; containerd and containers go on in between.
type furtherNodes struct {
	dataDir    string
	segment    *network.Segment
	names      []string // of all nodes
	namespaces []string // paths, by node; "" for the first
	program    string   // this program
	logger     *slog.Logger
}

// newFurtherNodes makes network namespaces for all nodes but the first, or takes over those that are there, and joins them. Nil when there is
// one node.
func newFurtherNodes(dataDir string, names []string, logger *slog.Logger) (*furtherNodes, error) {
	if len(names) < 2 {
		return nil, nil
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	if len(names) > network.MaxSegmentNodes+1 {
		return nil, fmt.Errorf("--nodes %d: one machine can have %d nodes with real containers", len(names), network.MaxSegmentNodes+1)
	}
	f := &furtherNodes{
		dataDir: dataDir, segment: network.NewSegment(dataDir), names: names, namespaces: make([]string, len(names)), program: program, logger: logger,
	}
	if err := f.segment.Ensure(); err != nil {
		return nil, fmt.Errorf("network between nodes: %w", err)
	}
	for i := 1; i < len(names); i++ {
		if f.namespaces[i], err = f.segment.Join(i, names[i]); err != nil {
			return nil, fmt.Errorf("network of node %s: %w", names[i], err)
		}
	}
	return f, nil
}

// prepareFurtherNodes makes the further nodes' network, if there are any with real containers. Nodes with real containers that an earlier run had, and this one
// has not, are stopped: nobody looks after them.
func (c *UpConfig) prepareFurtherNodes(ctx context.Context, dataDir string) error {
	var names []string
	if c.Runtime != node.RuntimeSimulated {
		for i := range c.Nodes {
			names = append(names, NodeName(i))
		}
	}
	former := DownConfig{DataDir: dataDir, Out: io.Discard, Logger: c.Logger}
	if err := former.stopFormerNodes(ctx, func(node string) bool { return slices.Contains(names, node) }); err != nil {
		return err
	}
	var err error
	c.further, err = newFurtherNodes(dataDir, names, c.Logger)
	return err
}

// prepareNode does what comes before the i-th node can run: in this process, where slots bound how many do so at once, or in one of
// its own when it is a further one with real containers.
func (c *UpConfig) prepareNode(ctx context.Context, slots chan struct{}, i int, config node.Config) (run func(ctx context.Context) error, err error) {
	if c.further != nil && i > 0 {
		return func(ctx context.Context) error { return c.further.run(ctx, i, config) }, nil
	}
	slots <- struct{}{}
	defer func() { <-slots }()
	return node.Prepare(ctx, config)
}

// address is the InternalIP of the i-th node. Nil: there is but one, and it has the machine's.
func (f *furtherNodes) address(i int) netip.Addr {
	if f == nil {
		return netip.Addr{}
	}
	return f.segment.Address(i)
}

// listen makes the API server's further listeners: on the network between the nodes, and at 127.0.0.1 in each namespace, where the node's
// kubeconfig looks for it. everywhere says that the server listens at all addresses of this machine anyway.
func (f *furtherNodes) listen(port int, everywhere bool) ([]net.Listener, error) {
	if f == nil {
		return nil, nil
	}
	var all []net.Listener
	add := func(listener net.Listener, err error) error {
		if err == nil {
			all = append(all, listener)
			return nil
		}
		for _, listener := range all {
			listener.Close()
		}
		return fmt.Errorf("listen for nodes: %w", err)
	}
	suffix := ":" + strconv.Itoa(port)
	if !everywhere {
		if err := add(net.Listen("tcp", f.address(0).String()+suffix)); err != nil {
			return nil, err
		}
	}
	for _, namespace := range f.namespaces[1:] {
		if err := add(network.Listen(namespace, "127.0.0.1"+suffix)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// run runs the i-th node until ctx ends, and starts it again when it ends before. config is completed with what follows from the node's place.
func (f *furtherNodes) run(ctx context.Context, i int, config node.Config) error {
	dir := node.Dir(f.dataDir, f.names[i])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	config.NodeName, config.Logger = f.names[i], nil
	config.Runtime, config.Real.DataDir, config.Real.NodeDir, config.Real.NodeIP = node.RuntimeContainerd, f.dataDir, dir, f.address(i)
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("node %s: encode its configuration: %w", f.names[i], err)
	}
	if err := pki.WriteFile(nodeFile(dir), append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("node %s: %w", f.names[i], err)
	}
	return f.keep(ctx, i, dir)
}

// nodeFile has the configuration of a node that is a process of its own, pidFile its process.
func nodeFile(dir string) string { return filepath.Join(dir, "node.json") }
func pidFile(dir string) string  { return filepath.Join(dir, "node.pid") }

// RunNode runs the node whose configuration `vigil up` has put into a file, until ctx ends.
func RunNode(ctx context.Context, file string, logger *slog.Logger) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config node.Config
	if err := json.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	config.Version, config.Logger = KubernetesVersion, logger
	return node.Run(ctx, config)
}

// maxNodeLog is when a node's log is put aside at its start.
const maxNodeLog = 16 << 20

// openNodeLog opens the log of a node's process.
func openNodeLog(dir string) (io.WriteCloser, error) {
	name := filepath.Join(dir, "node.log")
	if info, err := os.Stat(name); err == nil && info.Size() > maxNodeLog {
		if err := os.Rename(name, name+".1"); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, errors.Join(errors.New("open the node's log"), err)
	}
	return file, nil
}
