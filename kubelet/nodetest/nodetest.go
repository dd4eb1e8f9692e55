// Package nodetest gives tests a node with real containers: an API server, containerd with the images of this repository, a
// bridge network, and a kubelet with its parts.
//
//	func TestMain(m *testing.M) { nstest.Main(m) }
//
//	func TestX(t *testing.T) {
//		node := nodetest.Start(t, nil)
//		node.Create(nodetest.Pod("web", "serve"))
//		...
//	}
//
// It runs in the namespaces that nstest makes, where tests are root; elsewhere they are skipped. When the test ends nothing of it
// is left. There is no scheduler, and no controller: pods name the node themselves.
package nodetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver/apiservertest"
	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/kubelet"
	"vigil/kubelet/cgroups"
	"vigil/kubelet/configobjects"
	"vigil/kubelet/containerd"
	"vigil/kubelet/containerd/containerdtest"
	"vigil/kubelet/cri"
	"vigil/kubelet/env"
	"vigil/kubelet/etcfiles"
	"vigil/kubelet/volumes"
)

// Name is the name of the node, Address its address: the gateway of its pods.
const (
	Name    = "node-1"
	Address = "10.88.0.1"
)

// Node is a machine that runs pods.
type Node struct {
	API      *apiservertest.Server
	Client   *kubernetes.Clientset
	Daemon   *containerd.Daemon
	Runtime  *cri.Runtime
	Registry *prometheus.Registry // of the newest kubelet
	Kubelet  *kubelet.Kubelet     // the newest

	t       testing.TB
	rootDir string
	server  *rest.Config
	change  func(*kubelet.Config)
	stop    func()
}

// Start starts everything and waits until pods can run. change, when not nil, changes the kubelet's configuration, and that of those
// that follow it after a Restart; options change the API server's.
func Start(t testing.TB, change func(*kubelet.Config), options ...apiservertest.Option) *Node {
	t.Helper()
	n := &Node{t: t, Daemon: containerdtest.Start(t), change: change}
	var err error
	if n.rootDir, err = os.MkdirTemp("/run", "kubelet-"); err != nil { // it goes with the namespaces, and what pods leave mounted in it, too
		t.Fatal(err)
	}
	network := `{"cniVersion": "1.0.0", "name": "test", "plugins": [
		{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]], "dataDir": "/run/cni-ipam"}}]}`
	if err := os.MkdirAll(n.Daemon.CNIConfDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.Daemon.CNIConfDir(), "10-test.conflist"), []byte(network), 0o644); err != nil {
		t.Fatal(err)
	}
	server := apiservertest.Start(t, options...)
	n.API, n.Client, n.server = server, server.Clientset(), server.Client("system:node:"+Name, "system:nodes", "system:masters")
	for _, name := range []string{corev1.NamespaceNodeLease, "default"} {
		_, err := n.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { n.stop() })
	n.start()
	return n
}

// Restart ends the kubelet, its containers running on, and starts another.
func (n *Node) Restart() {
	n.t.Helper()
	n.stop()
	n.start()
}

func (n *Node) start() {
	n.t.Helper()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	n.Registry = prometheus.NewRegistry()
	var err error
	if n.Runtime, err = cri.New(cri.Config{
		Endpoint: n.Daemon.Endpoint(), RootDir: n.rootDir, LogDir: filepath.Join(n.rootDir, "logs"), MemoryCapacity: 8 << 30, Logger: logger,
	}); err != nil {
		n.t.Fatal(err)
	}
	store, err := configobjects.New(configobjects.Config{Server: n.server, Logger: logger})
	if err != nil {
		n.t.Fatal(err)
	}
	mounts, err := volumes.New(volumes.Config{
		RootDir: n.rootDir, NodeName: Name, Objects: store, Client: n.Client, Logger: logger,
		RecursiveReadOnly: func(ctx context.Context, _ *corev1.Pod) (bool, error) { return n.Runtime.RecursiveReadOnly(ctx, "") },
	})
	if err != nil {
		n.t.Fatal(err)
	}
	tree, err := cgroups.New(cgroups.Config{Root: nstest.CgroupRoot()})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := tree.Setup(nil); err != nil {
		n.t.Fatal(err)
	}
	config := kubelet.Config{
		Server: n.server, NodeName: Name, Runtime: n.Runtime, RootDir: n.rootDir, Version: "v1.37.2", Logger: logger, Registerer: n.Registry,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: Address}},
		Parts: kubelet.Parts{
			Objects: store, Volumes: mounts, Cgroups: tree,
			Env: &env.Maker{Objects: store, Services: env.NewServices(), RootDir: n.rootDir},
			Files: &etcfiles.Files{RootDir: n.rootDir, Resolver: etcfiles.Resolver{
				ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local", NodeIPs: []string{Address},
			}},
		},
	}
	if n.change != nil {
		n.change(&config)
	}
	if n.Kubelet, err = kubelet.New(config); err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- store.Run(ctx) }()
	go func() { ended <- n.Kubelet.Run(ctx) }()
	n.stop = func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				n.t.Errorf("the node ended with %v", err)
			}
		}
		if err := n.Runtime.Close(); err != nil {
			n.t.Error(err)
		}
		n.stop = func() {}
	}
	eventually.Nil(n.t, "the network is ready", func() error { return n.Runtime.Ready(ctx) })
}

// Pod makes a pod for the node with a container "c" that runs a command of the demo image. A server is ready when it answers on
// port 8080.
func Pod(name string, command ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{
			NodeName: Name, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []corev1.Container{{Name: "c", Image: "demo:1", Args: command}},
		},
	}
	if len(command) > 0 && command[0] == "serve" {
		get := &corev1.HTTPGetAction{Path: "/version", Port: intstr.FromInt32(8080)}
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get}, PeriodSeconds: 1}
	}
	return pod
}

// Create creates a pod.
func (n *Node) Create(pod *corev1.Pod) *corev1.Pod {
	n.t.Helper()
	made, err := n.Client.CoreV1().Pods(pod.Namespace).Create(n.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	return made
}

// Await waits until a pod of namespace default is as it should be: until holds says nil.
func (n *Node) Await(name, what string, holds func(*corev1.Pod) error) *corev1.Pod {
	n.t.Helper()
	var pod *corev1.Pod
	eventually.Nil(n.t, name+": "+what, func() (err error) {
		if pod, err = n.Client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if err = holds(pod); err != nil {
			return fmt.Errorf("%w; its status is %+v", err, pod.Status)
		}
		return nil
	})
	return pod
}

// Ready waits until a pod is ready.
func (n *Node) Ready(name string) *corev1.Pod {
	n.t.Helper()
	return n.Await(name, "is ready", func(pod *corev1.Pod) error {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is not")
	})
}

// Event waits for an event of a pod: its reason, and how its message begins.
func (n *Node) Event(pod, reason, message string) {
	n.t.Helper()
	eventually.Nil(n.t, fmt.Sprintf("%s has an event %s %q", pod, reason, message), func() error {
		events, err := n.Client.CoreV1().Events("default").List(context.Background(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + pod})
		if err != nil {
			return err
		}
		var have []string
		for _, e := range events.Items {
			if e.Reason == reason && strings.HasPrefix(e.Message, message) {
				return nil
			}
			have = append(have, e.Reason+" "+e.Message)
		}
		return fmt.Errorf("it has %q", have)
	})
}

// Exec runs a command in container c of a pod that runs and returns what it printed; it must end well.
func (n *Node) Exec(pod *corev1.Pod, command ...string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	defer cancel()
	for i := range pod.Status.ContainerStatuses {
		if s := &pod.Status.ContainerStatuses[i]; s.Name == "c" {
			output, code, err := n.Runtime.Exec(ctx, s.ContainerID, append([]string{"demo"}, command...), 0, 0)
			if err != nil || code != 0 {
				n.t.Fatalf("%v in pod %s: %v, exit code %d, %s", command, pod.Name, err, code, output)
			}
			return string(output)
		}
	}
	n.t.Fatalf("pod %s has no container c", pod.Name)
	return ""
}
