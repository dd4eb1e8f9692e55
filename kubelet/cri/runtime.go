package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet"
	"vigil/kubelet/cri/credentials"
)

// Config says where the runtime is and how containers are made. Endpoint is needed, zero works for the rest.
type Config struct {
	Endpoint      string // --container-runtime-endpoint: "unix:///run/containerd/containerd.sock"
	ImageEndpoint string // --image-service-endpoint; default Endpoint

	RootDir string // --root-dir, default /var/lib/kubelet: seccomp profiles, records of pulls
	LogDir  string // --pod-log-dir, default /var/log/pods

	RequestTimeout time.Duration // --runtime-request-timeout of all requests but pulls, stops and execs; default 2m

	MemoryCapacity int64 // of the node, in bytes: what OOM scores are shares of; 0 gives every burstable container the same score
	NoCPUQuota     bool  // --cpu-cfs-quota=false: CPU limits are not enforced
	NoSeccomp      bool  // the runtime is known to have no filters of system calls; otherwise the first sandbox finds out
	SeccompDefault bool  // --seccomp-default: RuntimeDefault instead of Unconfined where a pod says nothing

	SerializeImagePulls   bool // --serialize-image-pulls
	MaxParallelImagePulls int  // --max-parallel-image-pulls; default 5, negative: no limit

	CredentialPlugins *credentials.Plugins // of --image-credential-provider-config, read by credentials.LoadPlugins; nil: none

	LogMaxSize  int64 // --container-log-max-size in bytes, default 10 MiB; negative: logs are not rotated
	LogMaxFiles int   // --container-log-max-files, default 5

	Registerer prometheus.Registerer // nil: metrics are counted and not shown
	Logger     *slog.Logger
}

func (c Config) withDefaults() Config {
	c.ImageEndpoint = cmp.Or(c.ImageEndpoint, c.Endpoint)
	c.RootDir = cmp.Or(c.RootDir, "/var/lib/kubelet")
	c.LogDir = cmp.Or(c.LogDir, "/var/log/pods")
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 2*time.Minute)
	c.MaxParallelImagePulls = cmp.Or(c.MaxParallelImagePulls, 5)
	c.LogMaxSize = cmp.Or(c.LogMaxSize, 10<<20)
	c.LogMaxFiles = cmp.Or(c.LogMaxFiles, 5)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Runtime is a container runtime at a socket. Make one with New; Follow keeps it up to date.
type Runtime struct {
	config  Config
	conns   []*grpc.ClientConn
	client  runtimeapi.RuntimeServiceClient
	images  *imageService
	logger  *slog.Logger
	cgroups cgroupSupport

	version   atomic.Pointer[runtimeapi.VersionResponse] // nil until the runtime has first answered
	status    atomic.Pointer[runtimeapi.StatusResponse]  // as Ready has last seen it
	noSeccomp atomic.Bool                                // the runtime has said that it cannot filter system calls
	proven    atomic.Bool                                // a sandbox has been made: noSeccomp is right
	first     chan struct{}                              // holds a token while the sandbox is made that is to find out
	cache     cache
}

var _ kubelet.Runtime = (*Runtime)(nil)

// New makes a runtime. Connections are made when they are first needed, and again whenever they are lost.
func New(config Config) (*Runtime, error) {
	config = config.withDefaults()
	if config.Endpoint == "" {
		return nil, errors.New("a runtime needs an endpoint")
	}
	metrics := newMetrics(config.Registerer)
	conn, err := dial(config.Endpoint, config.RequestTimeout, metrics)
	if err != nil {
		return nil, fmt.Errorf("runtime endpoint: %w", err)
	}
	r := &Runtime{
		config:  config,
		conns:   []*grpc.ClientConn{conn},
		client:  runtimeapi.NewRuntimeServiceClient(conn),
		logger:  config.Logger,
		cgroups: findCgroupSupport(),
		first:   make(chan struct{}, 1),
	}
	imageConn := conn
	if config.ImageEndpoint != config.Endpoint {
		if imageConn, err = dial(config.ImageEndpoint, config.RequestTimeout, metrics); err != nil {
			return nil, fmt.Errorf("image endpoint: %w", errors.Join(err, conn.Close()))
		}
		r.conns = append(r.conns, imageConn)
	}
	r.images = newImageService(config, imageConn, metrics)
	r.cache.init()
	r.noSeccomp.Store(config.NoSeccomp)
	return r, nil
}

// Close ends the connections. Containers run on.
func (r *Runtime) Close() error {
	var err error
	for _, conn := range r.conns {
		err = errors.Join(err, conn.Close())
	}
	return err
}

// Version implements kubelet.Runtime.
func (r *Runtime) Version(ctx context.Context) (name, version string, err error) {
	v, err := r.client.Version(ctx, &runtimeapi.VersionRequest{Version: "0.1.0"})
	if err != nil {
		return "", "", fmt.Errorf("ask the runtime for its version: %w", err)
	}
	r.version.Store(v)
	return v.RuntimeName, strings.TrimPrefix(v.RuntimeVersion, "v"), nil
}

// prefix is what IDs begin with outside of this package: "containerd://".
func (r *Runtime) prefix(ctx context.Context) (string, error) {
	v := r.version.Load()
	if v == nil {
		if _, _, err := r.Version(ctx); err != nil {
			return "", err
		}
		v = r.version.Load()
	}
	return v.RuntimeName + "://", nil
}

// bare takes the runtime's name off an ID.
func bare(id string) string {
	if _, after, found := strings.Cut(id, "://"); found {
		return after
	}
	return id
}

// Ready implements kubelet.Runtime.
func (r *Runtime) Ready(ctx context.Context) error {
	status, err := r.client.Status(ctx, &runtimeapi.StatusRequest{})
	if err != nil {
		return fmt.Errorf("container runtime is down: %w", err)
	}
	r.status.Store(status)
	for _, kind := range []struct{ condition, what string }{{runtimeapi.RuntimeReady, "container runtime"}, {runtimeapi.NetworkReady, "container runtime network"}} {
		condition := conditionOf(status.Status, kind.condition)
		switch {
		case condition == nil:
			return fmt.Errorf("%s not ready: %s is not set", kind.what, kind.condition)
		case !condition.Status:
			return fmt.Errorf("%s not ready: %s=%t reason:%s message:%s", kind.what, condition.Type, condition.Status, condition.Reason, condition.Message)
		}
	}
	return nil
}

// Describe adds to a Node's status what the runtime's handlers can do, as Ready has last seen it.
func (r *Runtime) Describe(status *corev1.NodeStatus) {
	seen := r.status.Load()
	if seen == nil {
		return
	}
	status.RuntimeHandlers = nil
	for _, h := range seen.RuntimeHandlers {
		handler := corev1.NodeRuntimeHandler{Name: h.Name}
		if h.Features != nil {
			handler.Features = &corev1.NodeRuntimeHandlerFeatures{
				RecursiveReadOnlyMounts: &h.Features.RecursiveReadOnlyMounts, UserNamespaces: &h.Features.UserNamespaces,
			}
		}
		status.RuntimeHandlers = append(status.RuntimeHandlers, handler)
	}
	slices.SortFunc(status.RuntimeHandlers, func(a, b corev1.NodeRuntimeHandler) int { return cmp.Compare(a.Name, b.Name) })
	if seen.Features != nil {
		status.Features = &corev1.NodeFeatures{SupplementalGroupsPolicy: &seen.Features.SupplementalGroupsPolicy}
	}
}

func conditionOf(status *runtimeapi.RuntimeStatus, kind string) *runtimeapi.RuntimeCondition {
	for _, c := range status.GetConditions() {
		if c.Type == kind {
			return c
		}
	}
	return nil
}

// Pod implements kubelet.Runtime. What it returns is shared: never change it. A pod that is known costs no request.
func (r *Runtime) Pod(ctx context.Context, uid types.UID) (*kubelet.Sandbox, []*kubelet.Container, error) {
	if view, known := r.cache.view(uid); known {
		return view.sandbox, view.containers, nil
	}
	if err := r.refresh(ctx, uid); err != nil {
		return nil, nil, err
	}
	view, _ := r.cache.view(uid)
	return view.sandbox, view.containers, nil
}

// Pods implements kubelet.Runtime.
func (r *Runtime) Pods(ctx context.Context) ([]kubelet.PodReference, error) {
	if _, err := r.relist(ctx); err != nil {
		return nil, err
	}
	return r.cache.references(), nil
}

// podLogDir is where the logs of a pod's containers go.
func (r *Runtime) podLogDir(namespace, name string, uid types.UID) string {
	return filepath.Join(r.config.LogDir, namespace+"_"+name+"_"+string(uid))
}

// describe names a pod as upstream's messages do: web_default(0f1e...).
func describe(pod *corev1.Pod) string {
	return fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID)
}
