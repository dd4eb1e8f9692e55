package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// Status is how a cluster is doing, as its API server tells. JSON names are kept stable: scripts read them.
type Status struct {
	Ready   bool     `json:"ready"` // /readyz answers ok and every node is ready
	Server  string   `json:"server"`
	Version string   `json:"version"` // of the API server
	DataDir string   `json:"dataDir"`
	Failing []string `json:"failing,omitempty"` // checks of /readyz that fail
	// Warnings are what /readyz warns of without failing: that etcd refuses writes for lack of space, that the server's process has
	// recovered from panics.
	Warnings []string     `json:"warnings,omitempty"`
	Nodes    []NodeStatus `json:"nodes"`
	Pods     PodCounts    `json:"pods"`
}

// NodeStatus is one node of a Status.
type NodeStatus struct {
	Name    string `json:"name"`
	Ready   bool   `json:"ready"`
	Runtime string `json:"runtime"`
	Pods    int    `json:"pods"` // bound to it and not finished
}

// PodCounts counts pods by what they are doing.
type PodCounts struct {
	Total   int `json:"total"`
	Running int `json:"running"`
	Pending int `json:"pending"`
	Failed  int `json:"failed"`
}

// ErrNotRunning says that no cluster answers for a data directory.
var ErrNotRunning = errors.New("no cluster is running")

// ReadStatus asks the cluster of a data directory how it is doing.
func ReadStatus(ctx context.Context, dir string) (*Status, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.conf"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s: start one with `vigil up`", ErrNotRunning, dir)
	}
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	version, err := client.Discovery().ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("%w in %s (%w)", ErrNotRunning, dir, err)
	}
	status := &Status{Server: config.Host, Version: version.GitVersion, DataDir: dir, Nodes: []NodeStatus{}}
	body, checkErr := client.RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(ctx)
	for line := range strings.Lines(string(body)) {
		if name, failing := strings.CutPrefix(line, "[-]"); failing {
			name, _, _ = strings.Cut(name, " ")
			status.Failing = append(status.Failing, name)
		}
		if warning, ok := strings.CutPrefix(line, "[!]"); ok {
			status.Warnings = append(status.Warnings, strings.TrimSpace(warning))
		}
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, err
	}
	status.Ready = checkErr == nil
	on := map[string]int{}
	for i := range pods.Items {
		status.Pods.count(&pods.Items[i], on)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		ready := nodeReady(node)
		status.Ready = status.Ready && ready
		status.Nodes = append(status.Nodes, NodeStatus{Name: node.Name, Ready: ready, Runtime: node.Status.NodeInfo.ContainerRuntimeVersion, Pods: on[node.Name]})
	}
	slices.SortFunc(status.Nodes, func(a, b NodeStatus) int { return strings.Compare(a.Name, b.Name) })
	return status, nil
}

func (c *PodCounts) count(pod *corev1.Pod, on map[string]int) {
	c.Total++
	switch pod.Status.Phase {
	case corev1.PodRunning:
		c.Running++
	case corev1.PodPending:
		c.Pending++
	case corev1.PodFailed:
		c.Failed++
		return
	case corev1.PodSucceeded:
		return
	}
	on[pod.Spec.NodeName]++
}
