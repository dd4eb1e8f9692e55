// Package nodetest gives tests a node with real containers: an API server, containerd with the images of this repository, and the node that package
// node puts together, with a pod network of its own.
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
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver/apiservertest"
	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/kubelet/containerd"
	"vigil/kubelet/containerd/containerdtest"
	"vigil/kubelet/cri"
	"vigil/kubelet/eviction"
	"vigil/kubelet/network"
	"vigil/kubelet/node"
)

// Name is the name of the node, Address its address: the gateway of its pods.
const (
	Name    = "node-1"
	Address = "10.88.0.1"

	podCIDR = "10.88.0.0/16"
)

// Node is a machine that runs pods.
type Node struct {
	API    *apiservertest.Server
	Client *kubernetes.Clientset
	Daemon *containerd.Daemon

	t       testing.TB
	rootDir string
	config  node.Config
	server  *rest.Config
	real    *node.Node // the newest
	stop    func()
}

// Start starts everything and waits until pods can run. change, when not nil, changes how the node is run, also after a Restart; options
// change the API server's configuration.
func Start(t testing.TB, change func(*node.Config), options ...apiservertest.Option) *Node {
	t.Helper()
	nstest.Need(t)
	n := &Node{t: t}
	var err error
	if n.rootDir, err = os.MkdirTemp("/run", "kubelet-"); err != nil { // it goes with the namespaces, and what pods leave mounted in it, too
		t.Fatal(err)
	}
	t.Cleanup(func() { // when no pod is left; the next node has the same pod network
		if err := network.Remove(n.rootDir); err != nil {
			t.Error(err)
		}
	})
	n.Daemon = containerdtest.Start(t)
	resolvConf := filepath.Join(n.rootDir, "resolv.conf")
	if err := os.WriteFile(resolvConf, []byte("nameserver 127.0.0.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	n.config = node.Config{
		NodeName: Name, Version: "v1.37.2",
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Real: node.Real{
			NodeDir: n.rootDir, RootDir: n.rootDir, RuntimeEndpoint: n.Daemon.Endpoint(), CNIConfDir: n.Daemon.CNIConfDir(), CgroupRoot: nstest.CgroupRoot(),
			NodeIP: netip.MustParseAddr(Address), NetworkMode: "none", ClusterDNS: []string{"10.96.0.10"}, ResolvConf: resolvConf,
			Server: node.Server{Off: true},
			// How full the machine is that the tests run on decides nothing: no pod is evicted, no image removed.
			Eviction: eviction.Flags{Hard: map[string]string{}}, Images: node.Images{HighThreshold: 100, LowThreshold: 99},
		},
	}
	if change != nil {
		change(&n.config)
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
	eventually.Nil(t, "the node has a pod network", func() error { // there is no controller that gives it one
		_, err := n.Client.CoreV1().Nodes().Patch(t.Context(), Name, types.MergePatchType, []byte(`{"spec":{"podCIDR":"`+podCIDR+`","podCIDRs":["`+podCIDR+`"]}}`), metav1.PatchOptions{})
		return err
	})
	n.networkReady()
	return n
}

// Restart ends the kubelet, its containers running on, and starts another.
func (n *Node) Restart() {
	n.t.Helper()
	n.stop()
	n.start()
	n.networkReady()
}

func (n *Node) networkReady() {
	n.t.Helper()
	eventually.Nil(n.t, "the network is ready", func() error { return n.Runtime().Ready(context.Background()) })
}

func (n *Node) start() {
	n.t.Helper()
	n.stop = func() {}
	ctx, cancel := context.WithCancel(context.Background())
	var err error
	if n.real, err = node.New(ctx, n.config, n.server); err != nil {
		cancel()
		n.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- n.real.Run(ctx) }()
	n.stop = func() {
		n.stop = func() {}
		cancel()
		if err := <-ended; err != nil {
			n.t.Errorf("the node ended with %v", err)
		}
	}
}

// Runtime is the container runtime of the newest kubelet, Registry has its metrics.
func (n *Node) Runtime() *cri.Runtime          { return n.real.Runtime() }
func (n *Node) Registry() *prometheus.Registry { return n.real.Registry() }

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
			output, code, err := n.Runtime().Exec(ctx, s.ContainerID, append([]string{"demo"}, command...), 0, 0)
			if err != nil || code != 0 {
				n.t.Fatalf("%v in pod %s: %v, exit code %d, %s", command, pod.Name, err, code, output)
			}
			return string(output)
		}
	}
	n.t.Fatalf("pod %s has no container c", pod.Name)
	return ""
}
