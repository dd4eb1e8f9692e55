package cluster

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"vigil/informer"
	"vigil/internal/panics"
	"vigil/internal/slis"
	"vigil/kubelet"
	"vigil/kubelet/admit"
	"vigil/kubelet/cgroups"
	"vigil/kubelet/configobjects"
	"vigil/kubelet/containerd"
	"vigil/kubelet/cri"
	"vigil/kubelet/csi"
	"vigil/kubelet/env"
	"vigil/kubelet/etcfiles"
	"vigil/kubelet/eviction"
	"vigil/kubelet/machine"
	"vigil/kubelet/network"
	"vigil/kubelet/server"
	"vigil/kubelet/stats"
	"vigil/kubelet/volumes"
)

// realNode is a node with real containers: a kubelet and all that it works with. It is put together once, from the machine upwards.
type realNode struct {
	name     string
	config   RealConfig
	rest     *rest.Config
	client   kubernetes.Interface
	log      *slog.Logger
	registry *prometheus.Registry
	// indicators count what the health checks of both ports find.
	indicators *slis.Metrics

	daemon      *containerd.Daemon // nil: somebody else's runtime
	endpoint    string             // of the runtime
	runtime     *cri.Runtime
	images      *cri.ImageGC
	informers   *informer.Factory
	capacity    corev1.ResourceList
	allocatable corev1.ResourceList
	thresholds  []eviction.Threshold
	cgroups     *cgroups.Tree
	network     *network.Network
	events      record.EventBroadcaster
	recorder    record.EventRecorder
	kubelet     *kubelet.Kubelet
	eviction    *eviction.Manager
	csi         *csi.Plugin
	node        informer.Lister[*corev1.Node]
	parts       []part // run beside the kubelet
}

// runReal runs a node with real containers until ctx ends. The containers run on.
func (c *KubeletConfig) runReal(ctx context.Context, config *rest.Config) error {
	n := &realNode{name: c.NodeName, rest: config, log: c.Logger, registry: prometheus.NewRegistry(), indicators: slis.New()}
	n.registry.MustRegister(panics.NewCollector())
	var err error
	if n.config, err = c.Real.withDefaults(c.NodeName); err != nil {
		return fmt.Errorf("node %s: %w", n.name, err)
	}
	if !n.config.NodeIP.IsValid() {
		n.config.NodeIP = nodeAddress()
	}
	if n.client, err = kubernetes.NewForConfig(n.protobuf()); err != nil {
		return fmt.Errorf("node %s: %w", n.name, err)
	}
	n.events = record.NewBroadcaster()
	n.events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: n.client.CoreV1().Events("")})
	defer n.events.Shutdown()
	n.recorder = n.events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "kubelet", Host: n.name})
	for _, step := range []func(context.Context) error{n.checkMachine, n.makeDirs, n.startRuntime, n.checkRuntime, n.measureMachine, n.makeNetwork} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("node %s: %w", n.name, err)
		}
	}
	defer n.runtime.Close()
	if err := n.makeKubelet(c); err != nil {
		return fmt.Errorf("node %s: %w", n.name, err)
	}
	return n.run(ctx)
}

func (n *realNode) protobuf() *rest.Config {
	config := rest.CopyConfig(n.rest)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

func (n *realNode) makeDirs(context.Context) error {
	for _, dir := range []string{n.config.NodeDir, n.config.RootDir, filepath.Join(n.config.RootDir, "pods"), n.config.PodLogDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return os.MkdirAll(n.checkpointDir(), 0o700) // what is in memory is nobody else's business
}

func (n *realNode) checkpointDir() string { return filepath.Join(n.config.RootDir, "checkpoints") }

// startRuntime has a container runtime that answers. Images that come with it are there before the first pod.
func (n *realNode) startRuntime(ctx context.Context) error {
	n.endpoint = n.config.RuntimeEndpoint
	if n.endpoint == "" {
		daemon := containerd.Config{BinDir: n.config.RuntimeDir, RootDir: filepath.Join(n.config.NodeDir, "containerd"), Logger: n.log}
		if n.config.Registries != "" {
			registries, err := containerd.ReadRegistries(n.config.Registries)
			if err != nil {
				return err
			}
			daemon.Registries = registries
		}
		var err error
		if n.daemon, err = containerd.New(daemon); err != nil {
			return err
		}
		if err := n.daemon.Start(ctx); err != nil {
			return err
		}
		if err := n.daemon.Load(ctx); err != nil {
			return err
		}
		n.parts = append(n.parts, part{"containerd", n.daemon.Run})
		n.endpoint, n.config.CNIConfDir = n.daemon.Endpoint(), n.daemon.CNIConfDir()
	}
	memory, err := machine.Memory()
	if err != nil {
		return err
	}
	noSeccomp := n.daemon != nil && !n.daemon.Seccomp(ctx)
	if noSeccomp {
		n.log.Warn("runc was built without libseccomp; containers that want the seccomp profile RuntimeDefault are not started: the guide says how to build it in")
	}
	config, err := n.config.Images.complete(cri.Config{
		Endpoint: n.endpoint, ImageEndpoint: n.config.ImageEndpoint, RootDir: n.config.RootDir, LogDir: n.config.PodLogDir,
		NoSeccomp: noSeccomp, MemoryCapacity: int64(memory), NoCPUQuota: n.config.NoCPUQuota, SeccompDefault: n.config.SeccompDefault, SerializeImagePulls: n.config.SerialPulls, RequestTimeout: n.config.RequestTimeout,
		Registerer: n.registry, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.runtime, err = cri.New(config)
	return err
}

// measureMachine finds out what the machine has, what of it pods may have, and makes the cgroups that see to that.
func (n *realNode) measureMachine(context.Context) error {
	var reserved machine.Reserved
	var err error
	if reserved.System, err = machine.ParseReserved(n.config.SystemReserved); err != nil {
		return fmt.Errorf("--system-reserved: %w", err)
	}
	if reserved.Kube, err = machine.ParseReserved(n.config.KubeReserved); err != nil {
		return fmt.Errorf("--kube-reserved: %w", err)
	}
	if n.thresholds, err = eviction.Parse(n.config.Eviction); err != nil {
		return err
	}
	if n.capacity, err = machine.Capacity(machine.Config{RootDir: n.config.RootDir, MaxPods: n.config.MaxPods, PodsPerCore: n.config.PodsPerCore}); err != nil {
		return err
	}
	reserved.Eviction = eviction.Reservation(n.thresholds, n.capacity)
	if err := machine.Check(n.capacity, reserved); err != nil {
		return err
	}
	if n.config.NoStorageLimits {
		delete(n.capacity, corev1.ResourceEphemeralStorage)
	}
	n.allocatable = machine.Allocatable(n.capacity, reserved)
	if n.cgroups, err = cgroups.New(cgroups.Config{Root: n.config.CgroupRoot, PodPidsLimit: n.config.PodPidsLimit, NoCPUCFSQuota: n.config.NoCPUQuota}); err != nil {
		return err
	}
	if n.config.Eviction.NoPodsEnforced {
		reserved = machine.Reserved{}
	}
	if err := n.cgroups.Setup(machine.Enforced(n.capacity, reserved)); err != nil {
		return err
	}
	node := &corev1.ObjectReference{Kind: "Node", Name: n.name, UID: types.UID(n.name)}
	n.recorder.Event(node, corev1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
	return nil
}

func (n *realNode) makeNetwork(context.Context) error {
	var err error
	if n.informers, err = informer.NewFactory(n.rest, informer.Config{Logger: n.log}); err != nil {
		return err
	}
	n.parts = append(n.parts, part{"informers", n.informers.Run})
	own := informer.ResourceOf[*corev1.Node]()
	own.FieldSelector = "metadata.name=" + n.name
	n.node = informer.ListerFor[*corev1.Node](n.informers.Informer(own))
	if n.config.CNIConfDir == "" {
		n.config.CNIConfDir = "/etc/cni/net.d"
	}
	mode, err := network.ParseMode(n.config.NetworkMode)
	if err != nil {
		return err
	}
	if n.network, err = network.New(network.Config{
		NodeName: n.name, Owner: n.config.DataDir, Client: n.client, Informers: n.informers, Addresses: []netip.Addr{n.config.NodeIP},
		CNIConfDir: n.config.CNIConfDir, StateDir: filepath.Join(n.config.NodeDir, "network"), Mode: mode, Logger: n.log,
		ClusterCIDRs: n.config.ClusterCIDRs,
	}); err != nil {
		return err
	}
	n.parts = append(n.parts, part{"network", n.network.Run})
	return nil
}

func (n *realNode) makeKubelet(c *KubeletConfig) error {
	store, err := configobjects.New(configobjects.Config{Server: n.rest, Logger: n.log})
	if err != nil {
		return err
	}
	allocatable := func() corev1.ResourceList { return n.allocatable }
	maker := &env.Maker{Objects: store, Services: env.NewServices(), RootDir: n.config.RootDir, Allocatable: allocatable}
	localVolumes, err := n.makeLocalVolumes()
	if err != nil {
		return err
	}
	if err := n.makeCSI(); err != nil {
		return err
	}
	mounts, err := volumes.New(volumes.Config{
		LocalVolumes: localVolumes, Plugins: []volumes.Plugin{n.csi},
		RootDir: n.config.RootDir, NodeName: n.name, Objects: store, Client: n.client, Logger: n.log, Allocatable: allocatable,
		Image: n.volumeImage(store), RecursiveReadOnly: n.recursiveReadOnly,
	})
	if err != nil {
		return err
	}
	sysctls, err := admit.NewSysctls(n.config.UnsafeSysctls)
	if err != nil {
		return err
	}
	provider := stats.New(stats.Config{
		Node: n.name, Pods: func() []*corev1.Pod { return n.kubelet.Pods() }, Runtime: n.runtime.Client(), Images: n.runtime.ImageClient(), Groups: n.cgroups,
		RootDir: n.config.RootDir, LogDir: n.config.PodLogDir, DiskPeriod: n.config.VolumeStatsPeriod, Volumes: volumeStats(mounts, n.log), Logger: n.log,
	})
	if err := n.registry.Register(provider.Collector()); err != nil {
		return err
	}
	if n.images, err = n.imageGC(); err != nil {
		return err
	}
	n.eviction = eviction.New(eviction.Config{
		Thresholds: n.thresholds, TransitionPeriod: n.config.EvictionTransition, MaxPodGrace: n.config.EvictionMaxPodGrace,
		NoStorageLimits: n.config.NoStorageLimits, Node: n.name, Stats: provider, Pods: evictable{n}, Recorder: n.recorder, Registerer: n.registry, Logger: n.log,
		Reclaim: eviction.Reclaimer{
			Containers: func(ctx context.Context) error { return n.runtime.Collect(ctx, n.has) },
			Images:     n.images.Free,
		},
	})
	config := c.base(n.rest)
	config.Client, config.Recorder, config.Registerer = n.client, n.recorder, n.registry
	config.Runtime, config.RootDir, config.StaticPodPath = n.runtime, n.config.RootDir, n.config.StaticPodPath
	config.Capacity, config.Allocatable = n.capacity, n.allocatable
	config.System = machine.System(machine.Config{RootDir: n.config.RootDir})
	config.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.config.NodeIP.String()}, {Type: corev1.NodeHostName, Address: n.name}}
	config.Describe = n.describe
	config.Parts = kubelet.Parts{
		Objects: store, Volumes: mounts, Cgroups: n.cgroups, HostPorts: n.network, Env: maker,
		Files: &etcfiles.Files{RootDir: n.config.RootDir, Resolver: etcfiles.Resolver{
			ClusterDNS: n.config.ClusterDNS, ClusterDomain: n.config.ClusterDomain, ResolvConf: n.config.ResolvConf, NodeIPs: []string{n.config.NodeIP.String()},
		}},
		Admitters: []kubelet.Admitter{
			n.eviction, sysctls, &admit.AppArmor{Enabled: admit.AppArmorEnabled()},
			&admit.Node{Get: n.self},
		},
	}
	if n.kubelet, err = kubelet.New(config); err != nil {
		return err
	}
	n.parts = append(n.parts,
		part{"objects", store.Run},
		part{"stats", provider.Run},
		part{"eviction", n.eviction.Run},
		part{"image garbage collection", n.images.Run},
	)
	return n.makeServer(c, provider)
}

func (n *realNode) makeServer(c *KubeletConfig, provider *stats.Provider) error {
	healthy := map[string]func(*http.Request) error{"syncloop": func(*http.Request) error { return n.kubelet.Healthy() }}
	given := n.config.Server
	if given.HealthzPort != 0 {
		n.parts = append(n.parts, part{"healthz", func(ctx context.Context) error {
			return serveHealth(ctx, cmp.Or(given.HealthzAddress, "127.0.0.1"), given.HealthzPort, server.Health(healthy, n.indicators), n.log)
		}})
	}
	if given.Off {
		return nil
	}
	port, err := c.serving(n.client, given, n.config.NodeIP)
	if err != nil {
		return err
	}
	if port.run != nil {
		n.parts = append(n.parts, part{"serving certificate", port.run})
	}
	s, err := server.New(server.Config{
		Address: given.Address, Port: given.Port, NodeName: n.name, Certificate: port.certificate, ClientCA: port.clientCA, Client: n.client,
		MinVersion: given.TLSMinVersion, CipherSuites: given.TLSCipherSuites,
		Anonymous: given.Anonymous, NoTokens: given.NoTokens, AllowAll: given.AllowAll, Node: n.kubelet, Runtime: n.runtime, Streams: n.runtime,
		Checkpoints: n.runtime, CheckpointDir: n.checkpointDir(),
		Handlers: map[string]http.Handler{
			"/stats/summary": provider.ServeSummary(), "/metrics/resource": provider.ServeResource(), "/metrics/cadvisor": provider.ServeCadvisor(),
		},
		Metrics: n.registry, Registerer: n.registry, Healthy: healthy, SLIs: n.indicators, Configz: func() any { return c.configuration(n.config) }, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.parts = append(n.parts, part{"server", s.Run})
	return nil
}

// run runs the kubelet and its parts. The first that ends ends all.
func (n *realNode) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range n.parts {
		group.Go(func() error {
			if err := p.run(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("node %s: %s: %w", n.name, p.name, err)
			}
			return nil
		})
	}
	group.Go(func() error { return quiet(n.kubelet.Run(ctx)) })
	return quiet(group.Wait())
}

// self is the node's own Node: as the API server has it, or, while it does not answer, as the kubelet will make it. Pods of
// manifests are admitted before there is an API server.
func (n *realNode) self() (*corev1.Node, error) {
	node, err := n.node.Get("", n.name)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		node, err = n.client.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{ResourceVersion: "0"})
	}
	if err != nil {
		node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: n.kubelet.NodeLabels()}}
	}
	if len(node.Status.Allocatable) == 0 { // somebody else has made the object
		node.Status.Allocatable = n.allocatable
	}
	return node, nil
}

// describe completes the Node's status.
func (n *realNode) describe(status *corev1.NodeStatus) {
	status.DaemonEndpoints.KubeletEndpoint.Port = int32(cmp.Or(n.config.Server.Port, server.DefaultPort))
	n.runtime.Describe(status)
	n.describeImages(status)
	status.VolumesInUse = n.csi.InUse()
	for i := range status.Conditions {
		c := &status.Conditions[i]
		if reason, message, known := pressureWords(c.Type); known && n.eviction.Under(c.Type) {
			c.Status, c.Reason, c.Message = corev1.ConditionTrue, reason, message
		}
	}
}

// pressureWords are upstream's (nodestatus/setters.go).
func pressureWords(condition corev1.NodeConditionType) (reason, message string, known bool) {
	switch condition {
	case corev1.NodeMemoryPressure:
		return "KubeletHasInsufficientMemory", "kubelet has insufficient memory available", true
	case corev1.NodeDiskPressure:
		return "KubeletHasDiskPressure", "kubelet has disk pressure", true
	case corev1.NodePIDPressure:
		return "KubeletHasInsufficientPID", "kubelet has insufficient PID available", true
	}
	return "", "", false
}

// evictable gives the eviction manager the kubelet's pods.
type evictable struct{ *realNode }

// Active implements eviction.Pods.
func (e evictable) Active() []*corev1.Pod {
	active := e.kubelet.Pods()
	return slices.DeleteFunc(active, func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	})
}

// Evict implements eviction.Pods.
func (e evictable) Evict(ctx context.Context, pod types.UID, how kubelet.Eviction) error {
	return e.kubelet.Evict(ctx, pod, how)
}

// has says whether a pod is one of this node's.
func (n *realNode) has(uid types.UID) bool {
	return slices.ContainsFunc(n.kubelet.Pods(), func(pod *corev1.Pod) bool { return pod.UID == uid })
}
