package kubelet

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"vigil/internal/warm"
)

// Config says what a kubelet works with. Server, NodeName and Runtime are required.
type Config struct {
	Server   *rest.Config // how the API server is reached, with the node's own certificate
	NodeName string
	Runtime  Runtime
	Parts    Parts // of a node with real containers

	// RootDir is where pods' files are kept, below pods/UID; "" for nodes without any. StaticPodPath is a directory (or file) of
	// pods that run whatever the API server says; "" for none.
	RootDir       string
	StaticPodPath string

	// Client and Recorder are made from Server when nil.
	Client   kubernetes.Interface
	Recorder record.EventRecorder
	Logger   *slog.Logger
	// Workers run what the kubelet does, and what other kubelets of the process do; nil: goroutines of its own.
	Workers *warm.Pool
	// Registerer gets the kubelet's metrics; nil: there are none to be seen.
	Registerer prometheus.Registerer

	Labels map[string]string // further labels of the Node
	// Taints and ProviderID are given to the Node when it is made, not to one that is there. NoRegister leaves making it to others.
	Taints     []corev1.Taint
	ProviderID string
	NoRegister bool

	Capacity corev1.ResourceList // nil: 32 cores, 256 GiB of memory, 110 pods
	// Allocatable is what pods may have of Capacity; nil: all.
	Allocatable corev1.ResourceList
	Addresses   []corev1.NodeAddress
	// Describe adds to the Node's status what other parts know (ports, images, pressure); nil: nothing. It is called before every
	// look at the status and must be quick.
	Describe func(status *corev1.NodeStatus)
	// Version is the kubelet version that the node reports: "v1.37.2".
	Version string
	// System describes the machine in the Node's status; the kubelet fills in versions.
	System corev1.NodeSystemInfo

	StatusUpdateFrequency time.Duration // how often the node's status is looked at; 0: 10 s
	StatusReportFrequency time.Duration // how often an unchanged status is written; 0: 5 min
	LeaseDuration         time.Duration // validity of the Lease, renewed every quarter of it; 0: 40 s
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Capacity == nil {
		c.Capacity = corev1.ResourceList{
			corev1.ResourceCPU:              resource.MustParse("32"),
			corev1.ResourceMemory:           resource.MustParse("256Gi"),
			corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"),
			corev1.ResourcePods:             resource.MustParse("110"),
		}
	}
	if c.Allocatable == nil {
		c.Allocatable = c.Capacity
	}
	if c.StatusUpdateFrequency == 0 {
		c.StatusUpdateFrequency = 10 * time.Second
	}
	if c.StatusReportFrequency == 0 {
		c.StatusReportFrequency = 5 * time.Minute
	}
	if c.LeaseDuration == 0 {
		c.LeaseDuration = 40 * time.Second
	}
	return c
}
