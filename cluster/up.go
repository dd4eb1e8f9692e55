package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/cluster/componentserver"
	"vigil/internal/serving"
	"vigil/internal/warm"
	"vigil/kubelet/node"
	"vigil/pki"
	"vigil/store"
)

// UpConfig says what kind of cluster `vigil up` runs. The embedded APIServer's certificates, listener and etcd are filled
// in; its limits may be set.
type UpConfig struct {
	DataDir string
	Nodes   int
	Runtime string // node.RuntimeAuto, node.RuntimeSimulated or node.RuntimeContainerd
	Real    node.Real

	APIServer APIServerConfig
	EtcdPort  int // of clients; peers get the next one. 0: any free ones

	ClusterCIDRs []netip.Prefix // --cluster-cidr: of all pods, one or one of each family; none: 10.244.0.0/16, or more for more than 256 nodes

	ControllerManagerPort, SchedulerPort int
	NodeMonitorGracePeriod               time.Duration
	NodeStatusUpdateFrequency            time.Duration
	NodeLeaseDuration                    time.Duration

	// CertificateLife is how long certificates are good that are no authority, 0: a year. They are renewed while the cluster runs.
	CertificateLife time.Duration

	// MergeInto is a kubeconfig file that gets the cluster's context under the name ContextName. "": none.
	MergeInto string

	Out     io.Writer // progress, for people
	Program string    // how the user called this program, for what to type next
	Logger  *slog.Logger

	further *furtherNodes // nodes beside the first with real containers; nil: there are none
}

// ContextName is the context's name in a kubeconfig that the cluster is merged into.
const ContextName = "vigil"

// NodeName is the name of the i-th node of a cluster that is run by Up, counted from 0.
func NodeName(i int) string { return "node-" + strconv.Itoa(i+1) }

// Up runs a whole cluster in this process until ctx ends: certificates, etcd, the API server, then everything that talks to
// it. Each waits for what it cannot do without, and no longer: controllers, scheduler and nodes start together. The end is the
// reverse: clients of the API server first, etcd last.
func Up(ctx context.Context, config UpConfig) error {
	progress := newProgress(config.Out)
	kind, why, err := node.CheckRuntime(config.Runtime, config.Real)
	if err != nil {
		return err
	}
	config.Runtime = kind
	if config.Nodes < 0 || config.Nodes > maxNodes {
		return fmt.Errorf("--nodes %d: between 0 and %d are possible", config.Nodes, maxNodes)
	}
	dir, err := openDataDir(config.DataDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	fmt.Fprintf(config.Out, "vigil %s, data in %s\n", config.APIServer.Version, dir.path)

	address := net.JoinHostPort(config.APIServer.BindAddress, strconv.Itoa(config.APIServer.SecurePort))
	if err := config.probePorts(address); err != nil {
		return err
	}
	if err := config.prepareFurtherNodes(ctx, dir.path); err != nil {
		return err
	}
	wanted := config.certificates(dir.path, address)
	certificates, err := pki.Ensure(wanted)
	if err != nil {
		return explainDataDir(dir.path, err)
	}
	made := "kept"
	if n := len(certificates.Made); n > 0 {
		made = fmt.Sprintf("%d made", n)
	}
	progress.step("certificates", made)

	etcd, err := config.startEtcd(ctx, certificates)
	if err != nil {
		return err
	}
	if etcd != nil {
		defer etcd.Close()
		progress.step("etcd", "embedded")
	}

	// Components end before the API server does, so that their last writes arrive.
	serverCtx, stopServer := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServer()
	group, groupCtx := errgroup.WithContext(ctx)
	ready := make(chan struct{})
	server := config.apiServer(certificates, etcd, func() { close(ready) })
	if server.MoreListeners, err = config.listenInside(ctx); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- RunAPIServer(serverCtx, server) }()
	select {
	case <-ready:
	case err := <-served:
		return err
	case <-ctx.Done():
		stopServer()
		return <-served
	}
	progress.step("api server", "https://"+address)

	if err := config.retireNodes(groupCtx, certificates.Dir); err != nil {
		stopServer()
		return errors.Join(quiet(err), <-served)
	}
	if err := letServerAsk(groupCtx, certificates.Dir); err != nil && groupCtx.Err() == nil { // before nodes remember that they refused it
		config.Logger.Warn("the API server's rights at kubelets could not be written; nodes with real containers refuse logs, exec and metrics: start the cluster again", "error", err)
	}
	group.Go(func() error {
		if err := config.prepareJoin(groupCtx, certificates.Dir); err != nil && groupCtx.Err() == nil {
			config.Logger.Warn("the objects that joining nodes read could not be written; nodes cannot join with a token: start the cluster again", "error", err) // the cluster is good without them
		}
		return nil
	})
	group.Go(func() error { return pki.Keep(groupCtx, wanted, config.Logger) })
	config.startComponents(groupCtx, group, certificates)
	group.Go(func() error {
		return config.welcome(groupCtx, progress, certificates.Dir, why)
	})
	group.Go(func() error { // whichever of server and etcd ends ends all
		var ended <-chan struct{}
		if etcd != nil {
			ended = etcd.Done()
		}
		select {
		case err := <-served:
			served <- nil // what it said is told here
			if err == nil {
				return errors.New("the API server ended")
			}
			return fmt.Errorf("the API server ended: %w", err)
		case <-ended:
			return fmt.Errorf("etcd ended: %w", etcd.Err())
		case <-groupCtx.Done():
			return nil
		}
	})
	err = quiet(group.Wait())
	if ctx.Err() != nil {
		fmt.Fprintln(config.Out, "\nstopping; everything is kept in "+dir.path)
	}
	stopServer()
	return errors.Join(err, <-served)
}

// probePorts looks at the ports of API server and components before anything takes time, to say early and clearly that one
// is taken; their servers take them later.
func (c *UpConfig) probePorts(api string) error {
	addresses := []string{api}
	if own := c.ownAddress(); own.IsValid() {
		addresses = append(addresses, net.JoinHostPort(own.String(), strconv.Itoa(c.APIServer.SecurePort)))
	}
	for _, port := range []int{c.ControllerManagerPort, c.SchedulerPort} {
		if port != 0 {
			addresses = append(addresses, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		}
	}
	for _, address := range addresses {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return serving.Explain(address, err)
		}
		if err := listener.Close(); err != nil {
			return serving.Explain(address, err)
		}
	}
	return nil
}

// certificates says which certificates the cluster needs.
func (c *UpConfig) certificates(dir, address string) pki.Config {
	names := make([]string, c.Nodes)
	for i := range names {
		names[i] = NodeName(i)
	}
	var kubelets []pki.Kubelet
	if c.Runtime != node.RuntimeSimulated {
		for i, name := range names {
			kubelets = append(kubelets, pki.Kubelet{Node: name, IPs: []net.IP{c.nodeAddress(i).AsSlice()}})
		}
	}
	config := pki.Config{Kubelets: kubelets, Dir: dir, Server: "https://" + reachable(address), Nodes: names, Life: c.CertificateLife}
	if len(c.APIServer.ServiceRanges) > 0 {
		config.ServiceIP = firstAddress(c.APIServer.ServiceRanges[0]).AsSlice()
	}
	for _, ip := range []netip.Addr{advertised(c.APIServer), c.further.address(0)} {
		if ip.IsValid() {
			config.ExtraIPs = append(config.ExtraIPs, ip.AsSlice())
		}
	}
	return config
}

// reachable turns an address to listen on into one to connect to.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip, parseErr := netip.ParseAddr(host); err == nil && (host == "" || parseErr == nil && ip.IsUnspecified()) {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// startEtcd starts the embedded etcd; nil when the cluster uses a remote one.
func (c *UpConfig) startEtcd(ctx context.Context, certificates *pki.Set) (*store.Embedded, error) {
	if len(c.APIServer.EtcdServers) > 0 {
		return nil, nil
	}
	peer := 0
	if c.EtcdPort != 0 {
		peer = c.EtcdPort + 1
	}
	files := func(name string) store.CertFiles {
		return store.CertFiles{CAFile: certificates.Path("etcd/ca.crt"), CertFile: certificates.Path("etcd/" + name + ".crt"), KeyFile: certificates.Path("etcd/" + name + ".key")}
	}
	return store.StartEmbedded(ctx, store.EmbeddedConfig{
		DataDir:    filepath.Join(certificates.Dir, "etcd"),
		ClientAddr: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.EtcdPort)),
		PeerAddr:   net.JoinHostPort("127.0.0.1", strconv.Itoa(peer)),
		Client:     files("server"),
		Peer:       files("peer"),
		Logger:     c.Logger,
	})
}

func (c *UpConfig) apiServer(certificates *pki.Set, etcd *store.Embedded, ready func()) APIServerConfig {
	server := c.APIServer
	server.Embedded, server.Ready, server.Logger = etcd, ready, c.Logger
	server.TLSCertFile, server.TLSKeyFile = certificates.Path("apiserver.crt"), certificates.Path("apiserver.key")
	server.ClientCAFile = certificates.Path("ca.crt")
	server.ControllerManagerPort, server.SchedulerPort = c.ControllerManagerPort, c.SchedulerPort
	server.Authentication.BootstrapTokens = true
	if !slices.Contains(server.EnableAdmissionPlugins, "NodeRestriction") { // as kubeadm has it
		server.EnableAdmissionPlugins = append(slices.Clone(server.EnableAdmissionPlugins), "NodeRestriction")
	}
	server.Kubelets, server.OwnNodes = kubeletClient(server.Kubelets, certificates), append(slices.Clone(server.OwnNodes), NodeName(0))
	if server.Authentication.Proxy.CAFile == "" {
		server.Authentication.Proxy = frontProxy(certificates)
	}
	server.ServiceAccountSigningKeyFile = c.tokenKeyFile(certificates)
	return server
}

// tokenKeyFile is the key that signs the tokens of service accounts.
func (c *UpConfig) tokenKeyFile(certificates *pki.Set) string {
	if file := c.APIServer.ServiceAccountSigningKeyFile; file != "" {
		return file
	}
	return certificates.Path("sa.key")
}

func (c *UpConfig) startComponents(ctx context.Context, group *errgroup.Group, certificates *pki.Set) {
	component := func(name string, port int) ComponentConfig {
		kubeconfig := filepath.Join(certificates.Dir, name+".conf")
		return ComponentConfig{
			Kubeconfig: kubeconfig, SecurePort: port, Logger: c.Logger.With("component", name),
			Access: componentserver.Access{
				ClientCAFile: certificates.Path("ca.crt"), AuthenticationKubeconfig: kubeconfig, AuthorizationKubeconfig: kubeconfig,
				TokenTTL: componentserver.DefaultTTL, AllowedTTL: componentserver.DefaultTTL, RefusedTTL: componentserver.DefaultTTL,
			},
		}
	}
	group.Go(func() error {
		return RunControllerManager(ctx, ControllerManagerConfig{
			ComponentConfig:              component("controller-manager", c.ControllerManagerPort),
			NodeMonitorGracePeriod:       c.NodeMonitorGracePeriod,
			RootCAFile:                   certificates.Path("ca.crt"),
			ServiceAccountPrivateKeyFile: c.tokenKeyFile(certificates),
			ClusterSigningCertFile:       certificates.Path("ca.crt"),
			ClusterSigningKeyFile:        certificates.Path("ca.key"),
			ClusterSigningDuration:       c.CertificateLife,
			PodNetworks:                  c.podNetworks(),
		})
	})
	group.Go(func() error {
		return RunScheduler(ctx, SchedulerConfig{ComponentConfig: component("scheduler", c.SchedulerPort)})
	})
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	workers := &warm.Pool{} // of all nodes
	group.Go(func() error {
		<-ctx.Done()
		workers.Close()
		return nil
	})
	for i := range c.Nodes {
		group.Go(func() error {
			run, err := c.prepareNode(ctx, slots, i, node.Config{
				Kubeconfig:            filepath.Join(certificates.Dir, pki.NodeConfig(i, NodeName(i))),
				NodeName:              NodeName(i),
				Runtime:               c.Runtime,
				Real:                  c.realNode(certificates, i),
				Labels:                map[string]string{runByLabel: runByUp},
				Version:               KubernetesVersion,
				StatusUpdateFrequency: c.NodeStatusUpdateFrequency,
				LeaseDuration:         c.NodeLeaseDuration,
				Logger:                c.Logger.With("component", "kubelet", "node", NodeName(i)),
				Workers:               workers,
			})
			if err != nil {
				return quiet(err)
			}
			group.Go(func() error { return run(ctx) }) // on a small stack
			return nil
		})
	}
}

// realNode is how a node with real containers runs: in the data directory, with a server at the node's own address.
func (c *UpConfig) realNode(certificates *pki.Set, i int) node.Real {
	real, name := c.Real, NodeName(i)
	real.DataDir = certificates.Dir
	real.NodeIP, real.ClusterCIDRs = c.nodeAddress(i), c.podNetworks().ClusterCIDRs
	real.Server.Address = real.NodeIP.String()
	real.Server.CertFile, real.Server.KeyFile = certificates.Path(pki.KubeletFile(name)+".crt"), certificates.Path(pki.KubeletFile(name)+".key")
	real.Server.ClientCAFile = certificates.Path("ca.crt")
	return real
}

// nodeAddress is the address of the i-th node, of which the first is this machine.
func (c *UpConfig) nodeAddress(i int) netip.Addr {
	if address := c.further.address(i); address.IsValid() {
		return address
	}
	if address := c.APIServer.AdvertiseAddress; address.IsValid() && ofThisMachine(address) {
		return address // the network on which others reach the server is the one for pods, too
	}
	return node.Address()
}

// ofThisMachine says whether an address is on an interface here, rather than on a router or a balancer in front.
func ofThisMachine(address netip.Addr) bool {
	addresses, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addresses, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr() == address.Unmap()
	})
}

// maxNodes is how many nodes have a pod network: as many as there are /24 in the larger defaultClusterCIDR.
const maxNodes = 4096

// welcome waits until all nodes are ready and says what to type next.
func (c *UpConfig) welcome(ctx context.Context, progress *progress, dir, why string) error {
	admin := filepath.Join(dir, "admin.conf")
	config, err := clientcmd.BuildConfigFromFlags("", admin)
	if err != nil {
		return err
	}
	config.QPS = -1 // or the wait for nodes would be paced by the client's own limit
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	if err := c.waitForNodes(ctx, client, progress.begin); err != nil {
		return nil // ctx has ended
	}
	if c.Nodes > 0 {
		detail := fmt.Sprintf("%d with containerd", c.Nodes)
		if c.Runtime == node.RuntimeSimulated {
			detail = fmt.Sprintf("%d simulated (%s)", c.Nodes, why)
		}
		progress.step("nodes", detail)
	}
	if c.MergeInto != "" {
		if err := pki.Merge(admin, c.MergeInto, ContextName); err != nil {
			return err
		}
		progress.note("context %q is now the current one in %s", ContextName, c.MergeInto)
	}
	progress.ready()
	program := c.Program
	if dir != DefaultDataDir() {
		program = DataDirVariable + "=" + dir + " " + program
	}
	fmt.Fprintf(c.Out, `
kubeconfig: %s
try next, in another terminal:
  %[2]s kubectl create deployment hello --image=demo:1 --replicas=3
  %[2]s kubectl get pods --watch
Ctrl-C stops the cluster and keeps its data.
`, admin, program)
	if c.Nodes > 0 && c.Runtime != node.RuntimeSimulated {
		fmt.Fprintf(c.Out, "Containers run on, and the next start finds them; %s down stops them.\n", program)
	}
	return nil
}

// waitForNodes waits until the nodes of this run are ready. Those of a run before may look so for a while: a node counts
// when its kubelet has renewed its Lease since begin.
func (c *UpConfig) waitForNodes(ctx context.Context, client kubernetes.Interface, begin time.Time) error {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		ready, err := readyNodes(ctx, client, begin)
		if err == nil && ready >= c.Nodes {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// readyNodes counts the nodes that are ready and were heard of since begin.
func readyNodes(ctx context.Context, client kubernetes.Interface, begin time.Time) (int, error) {
	cached := metav1.ListOptions{ResourceVersion: "0"}
	leases, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, cached)
	if err != nil {
		return 0, err
	}
	alive := map[string]bool{}
	for i := range leases.Items {
		renewed := leases.Items[i].Spec.RenewTime
		alive[leases.Items[i].Name] = renewed != nil && !renewed.Time.Before(begin.Truncate(time.Microsecond))
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, cached)
	if err != nil {
		return 0, err
	}
	ready := 0
	for i := range nodes.Items {
		if alive[nodes.Items[i].Name] && nodeReady(&nodes.Items[i]) {
			ready++
		}
	}
	return ready, nil
}

func nodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// DefaultKubeconfig is the user's own kubeconfig file: ~/.kube/config.
func DefaultKubeconfig() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return clientcmd.RecommendedHomeFile
	}
	return filepath.Join(home, ".kube", "config")
}
