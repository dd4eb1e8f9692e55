package nodestatus

import (
	"context"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"vigil/informer"
)

// Config says what node it is, and how the kubelet tells of it. Nothing has a default here: the kubelet's own configuration does.
type Config struct {
	NodeName  string
	Client    Client
	Informers *informer.Factory
	Recorder  record.EventRecorder
	Runtime   Runtime
	Logger    *slog.Logger

	Labels     map[string]string // further labels of the Node
	Taints     []corev1.Taint    // of the Node when it is made
	ProviderID string            // of the Node when it is made
	NoRegister bool              // somebody else makes the Node
	Volumes    bool              // the node mounts volumes, which a controller is to attach

	Capacity, Allocatable corev1.ResourceList
	Addresses             []corev1.NodeAddress
	Describe              func(status *corev1.NodeStatus) // adds what other parts know; nil: nothing
	Version               string                          // of the kubelet
	System                corev1.NodeSystemInfo           // but for versions

	StatusUpdateFrequency time.Duration // how often the status is looked at
	StatusReportFrequency time.Duration // how often an unchanged status is written
	LeaseDuration         time.Duration
}

// Client writes Nodes and Leases.
type Client interface {
	CoreV1() coreclient.CoreV1Interface
	CoordinationV1() coordinationclient.CoordinationV1Interface
}

// Runtime is the container runtime, of which the status tells.
type Runtime interface {
	Version(ctx context.Context) (name, version string, err error)
	// Ready says why no sandbox can be started now, nil when one can.
	Ready(ctx context.Context) error
}
