package network

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/vishvananda/netlink"

	"vigil/apiserver/apiservertest"
	"vigil/informer"
	"vigil/internal/eventually"
	"vigil/internal/nstest"
	"vigil/netfilter"
)

// node is a machine of its own: a network namespace in which a Network works.
type node struct {
	t       testing.TB
	name    string
	server  *apiservertest.Server
	client  kubernetes.Interface
	ns      *nstest.Namespace
	config  Config
	network *Network
	stop    func()
	logs    lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func newNode(t testing.TB, server *apiservertest.Server, mode Mode, name string, cidrs ...string) *node {
	t.Helper()
	n := &node{t: t, name: name, server: server, client: server.Clientset(), ns: nstest.NewNamespace(t)}
	dir := t.TempDir()
	n.config = Config{
		NodeName: name, Owner: filepath.Join(dir, "data"), Client: n.client, Addresses: []netip.Addr{n.ns.Address},
		CNIConfDir: filepath.Join(dir, "net.d"), StateDir: filepath.Join(dir, "state"), Mode: mode,
		Logger: slog.New(slog.NewTextHandler(&n.logs, nil)),
	}
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: cidrs[0], PodCIDRs: cidrs}}
	object.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.ns.Address.String()}}
	if _, err := n.client.CoreV1().Nodes().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	n.start()
	t.Cleanup(func() {
		n.stop()
		if t.Failed() {
			t.Logf("node %s:\n%s", name, n.logs.String())
		}
	})
	return n
}

// start runs a new Network over what the one before has left.
func (n *node) start() {
	n.t.Helper()
	var err error
	if n.config.Informers, err = informer.NewFactory(n.server.Admin(), informer.Config{}); err != nil {
		n.t.Fatal(err)
	}
	if n.network, err = New(n.config); err != nil {
		n.t.Fatal(err)
	}
	n.network.inside = func(do func() error) error {
		var err error
		n.ns.Do(n.t, func() { err = do() })
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{n.config.Informers.Run, n.network.Run} {
		running.Go(func() {
			if err := run(ctx); !errors.Is(err, context.Canceled) {
				n.t.Errorf("node %s: %v", n.name, err)
			}
		})
	}
	n.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
}

// ready waits until the Node says that its network is there.
func (n *node) ready() {
	n.t.Helper()
	eventually.True(n.t, "network of "+n.name, func() bool {
		object, err := n.client.CoreV1().Nodes().Get(n.t.Context(), n.name, metav1.GetOptions{})
		if err != nil {
			n.t.Fatal(err)
		}
		for _, c := range object.Status.Conditions {
			if c.Type == corev1.NodeNetworkUnavailable {
				return c.Status == corev1.ConditionFalse && c.Reason == "RouteCreated"
			}
		}
		return false
	})
}

// hasRoute says whether the node has a route of ours to a pod network.
func (n *node) hasRoute(to string) (has bool) {
	n.ns.Do(n.t, func() {
		routes, err := ourRoutes()
		if err != nil {
			n.t.Fatal(err)
		}
		for _, r := range routes {
			if prefix, _ := prefixOf(r.Dst); prefix.String() == to {
				has = true
			}
		}
	})
	return has
}

// staleRoute adds a route to a node that is no more.
func (n *node) staleRoute(to string, via netip.Addr) {
	n.t.Helper()
	n.ns.Do(n.t, func() {
		stale := netlink.Route{Dst: ipNet(netip.MustParsePrefix(to)), Gw: via.AsSlice(), Protocol: routeProtocol}
		if err := netlink.RouteAdd(&stale); err != nil {
			n.t.Fatal(err)
		}
	})
}

// removed takes the node's network away and checks that nothing is left of it.
func (n *node) removed() {
	n.t.Helper()
	n.ns.Do(n.t, func() {
		before, err := Left(n.config.Owner)
		if err != nil || len(before) == 0 {
			n.t.Errorf("before: %v, %v", before, err)
		}
		if others, err := Left(n.config.Owner + "2"); err != nil || len(others) > 0 {
			n.t.Errorf("of another: %v, %v", others, err)
		}
		if err := Remove(n.config.Owner + "2"); err != nil { // not ours
			n.t.Error(err)
		}
		if again, err := Left(n.config.Owner); err != nil || len(again) != len(before) {
			n.t.Errorf("after removing another's: %v, %v", again, err)
		}
		if err := Remove(n.config.Owner); err != nil {
			n.t.Error(err)
		}
		left, err := Left(n.config.Owner)
		routes, routesErr := ourRoutes()
		if err != nil || routesErr != nil || len(left) > 0 || len(routes) > 0 {
			n.t.Errorf("left: %v, routes %v, %v", left, routes, errors.Join(err, routesErr))
		}
	})
}

// pod makes what a runtime makes of the CNI configuration, and returns the pod with its addresses.
func (n *node) pod() (*nstest.Namespace, []netip.Addr) {
	n.t.Helper()
	plugins := os.Getenv("VIGIL_RUNTIME")
	if plugins == "" {
		plugins = filepath.Join("..", "..", "bin", "runtime")
	}
	plugins, err := filepath.Abs(filepath.Join(plugins, "cni"))
	if err != nil {
		n.t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(plugins, "bridge")); err != nil {
		n.t.Fatalf("no CNI plug-ins (make runtime builds them): %v", err)
	}
	text, err := os.ReadFile(filepath.Join(n.config.CNIConfDir, confName))
	if err != nil {
		n.t.Fatal(err)
	}
	var list struct {
		CNIVersion, Name string
		Plugins          []map[string]any
	}
	if err := json.Unmarshal(text, &list); err != nil {
		n.t.Fatal(err)
	}
	plugin := list.Plugins[0]
	plugin["cniVersion"], plugin["name"] = list.CNIVersion, list.Name
	input, err := json.Marshal(plugin)
	if err != nil {
		n.t.Fatal(err)
	}
	pod := nstest.NewBareNamespace(n.t)
	command := n.ns.Command(filepath.Join(plugins, "bridge"))
	command.Env = append(command.Env, "CNI_COMMAND=ADD", "CNI_CONTAINERID="+pod.Name, "CNI_NETNS="+pod.Path, "CNI_IFNAME=eth0", "CNI_PATH="+plugins)
	command.Stdin = bytes.NewReader(input)
	output, err := command.Output()
	if err != nil {
		n.t.Fatalf("CNI ADD: %v: %s", err, output)
	}
	var result struct {
		IPs []struct{ Address netip.Prefix }
	}
	if err := json.Unmarshal(output, &result); err != nil || len(result.IPs) == 0 {
		n.t.Fatalf("CNI result: %v: %s", err, output)
	}
	var ips []netip.Addr
	for _, ip := range result.IPs {
		ips = append(ips, ip.Address.Addr())
	}
	return pod, ips
}

// serve answers every byte of a connection, and every datagram, with "who it is from, which server this is", until the test ends.
func serve(t testing.TB, in func(testing.TB, func()), address string) netip.AddrPort {
	t.Helper()
	var listener net.Listener
	var packets net.PacketConn
	in(t, func() {
		var err error
		if listener, err = net.Listen("tcp", address); err != nil {
			t.Fatal(err)
		}
		if packets, err = net.ListenPacket("udp", listener.Addr().String()); err != nil {
			t.Fatal(err)
		}
	})
	var serving sync.WaitGroup
	answer := func(from net.Addr) string {
		return netip.MustParseAddrPort(from.String()).Addr().Unmap().String() + " " + listener.Addr().String() + "\n"
	}
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended); listener.Close(); packets.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				<-ended // the other end may be out of reach by then
				conn.Close()
			})
			serving.Go(func() {
				defer conn.Close()
				buffer := make([]byte, 1)
				for {
					if _, err := io.ReadFull(conn, buffer); err != nil {
						return
					}
					if _, err := io.WriteString(conn, answer(conn.RemoteAddr())); err != nil {
						return
					}
				}
			})
		}
	})
	serving.Go(func() {
		buffer := make([]byte, 1500)
		for {
			_, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = packets.WriteTo([]byte(answer(from)), from)
		}
	})
	return netip.MustParseAddrPort(listener.Addr().String())
}

// open connects from within a namespace.
func open(t testing.TB, in func(testing.TB, func()), protocol string, to netip.AddrPort) net.Conn {
	t.Helper()
	var conn net.Conn
	in(t, func() {
		var err error
		if conn, err = net.DialTimeout(protocol, to.String(), time.Minute); err != nil {
			t.Errorf("connect: %v", err)
		}
	})
	if conn == nil {
		t.FailNow()
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask sends a byte and returns whom the server saw it from.
func ask(t testing.TB, conn net.Conn) string {
	t.Helper()
	from, _ := askBoth(t, conn)
	return from
}

// askBoth says also which server it was.
func askBoth(t testing.TB, conn net.Conn) (from, server string) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	var line []byte
	buffer := make([]byte, 100)
	for !bytes.HasSuffix(line, []byte("\n")) {
		got, err := conn.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		line = append(line, buffer[:got]...)
	}
	from, server, _ = strings.Cut(strings.TrimSpace(string(line)), " ")
	return from, server
}

// outside is the tests' own namespace: a machine beside the nodes.
func outside(_ testing.TB, do func()) { do() }

func seenAs(t testing.TB, what string, in func(testing.TB, func()), to netip.AddrPort, want string) {
	t.Helper()
	for _, protocol := range []string{"tcp", "udp"} {
		conn := open(t, in, protocol, to)
		if got := ask(t, conn); got != want {
			t.Errorf("%s by %s: seen as %s, want %s", what, protocol, got, want)
		}
		conn.Close()
	}
}

func TestTraffic(t *testing.T) {
	nstest.Need(t)
	for _, mode := range []Mode{ModeHostGW, ModeVXLAN} {
		t.Run(string(mode), func(t *testing.T) {
			server := apiservertest.Start(t)
			a, b := newNode(t, server, mode, "a", "10.244.0.0/24", "fd01:0:0:1::/64"), newNode(t, server, mode, "b", "10.244.1.0/24", "fd01:0:0:2::/64")
			a.ready()
			b.ready()
			for _, e := range []struct {
				from *node
				to   string
			}{{a, "10.244.1.0/24"}, {b, "10.244.0.0/24"}} {
				eventually.True(t, "route from "+e.from.name, func() bool { return e.from.hasRoute(e.to) })
			}
			podA, ipsA := a.pod()
			podA2, ipsA2 := a.pod()
			podB, ipsB := b.pod()
			serverB := serve(t, podB.Do, netip.AddrPortFrom(ipsB[0], 0).String())
			serverA := serve(t, podA.Do, netip.AddrPortFrom(ipsA[0], 0).String())
			far := serve(t, outside, netip.AddrPortFrom(nstest.BridgeAddress, 0).String())
			onNode := serve(t, b.ns.Do, netip.AddrPortFrom(b.ns.Address, 0).String())

			seenAs(t, "pod to pod of another node", podA.Do, serverB, ipsA[0].String())
			seenAs(t, "pod to pod of its node", podA2.Do, serverA, ipsA2[0].String())
			seenAs(t, "pod to another node", podA.Do, onNode, ipsA[0].String())
			seenAs(t, "pod to outside", podA.Do, far, a.ns.Address.String())
			nodeAddress := map[Mode]string{ModeHostGW: a.ns.Address.String(), ModeVXLAN: "10.244.0.0"}[mode]
			seenAs(t, "node to pod of another node", a.ns.Do, serverB, nodeAddress)
			if mode == ModeVXLAN { // the nodes have no IPv6 addresses, tunnels need none
				eventually.True(t, "IPv6 route", func() bool { return a.hasRoute("fd01:0:0:2::/64") && b.hasRoute("fd01:0:0:1::/64") })
				server6 := serve(t, podB.Do, netip.AddrPortFrom(ipsB[1], 0).String())
				seenAs(t, "pod to pod, IPv6", podA.Do, server6, ipsA[1].String())
			}

			// A restart leaves what there is alone, with connections that go through it.
			translated := open(t, podA.Do, "tcp", far)
			direct := open(t, podA.Do, "tcp", serverB)
			ask(t, translated)
			ask(t, direct)
			a.stop()
			ask(t, translated)
			a.staleRoute("10.244.99.0/24", b.ns.Address)
			a.start()
			eventually.True(t, "end of a stale route", func() bool { return !a.hasRoute("10.244.99.0/24") })
			ask(t, translated)
			ask(t, direct)

			// The pods of a node that is gone are no longer there to be reached.
			b.stop()
			if err := b.client.CoreV1().Nodes().Delete(t.Context(), "b", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			eventually.True(t, "end of the route", func() bool { return !a.hasRoute("10.244.1.0/24") && !a.hasRoute("fd01:0:0:2::/64") })

			a.stop()
			a.removed()
		})
	}
}

func TestHostPorts(t *testing.T) {
	nstest.Need(t)
	server := apiservertest.Start(t)
	a, b := newNode(t, server, ModeHostGW, "a", "10.244.0.0/24"), newNode(t, server, ModeHostGW, "b", "10.244.1.0/24")
	a.ready()
	b.ready()
	eventually.True(t, "routes", func() bool { return a.hasRoute("10.244.1.0/24") && b.hasRoute("10.244.0.0/24") })
	podA, ipsA := a.pod()
	podB, ipsB := b.pod()
	other, ipsOther := b.pod()
	inB := serve(t, podB.Do, netip.AddrPortFrom(ipsB[0], 0).String())
	inOther := serve(t, other.Do, netip.AddrPortFrom(ipsOther[0], 0).String())
	port := func(protocol corev1.Protocol, host int32, hostIP string, to netip.AddrPort) corev1.ContainerPort {
		return corev1.ContainerPort{Protocol: protocol, HostPort: host, HostIP: hostIP, ContainerPort: int32(to.Port())}
	}
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "one"}}
	object.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{
		port("TCP", 80, "", inB), port("UDP", 80, "", inB), port("SCTP", 80, "", inB),
		port("TCP", 81, b.ns.Address.String(), inB), port("UDP", 81, b.ns.Address.String(), inB), {ContainerPort: 9},
	}}}
	loopback := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "two"}}
	loopback.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{port("TCP", 81, "127.0.0.1", inOther), port("UDP", 81, "127.0.0.1", inOther)}}}
	for pod, ips := range map[*corev1.Pod][]netip.Addr{object: ipsB, loopback: ipsOther} {
		if err := b.network.Set(t.Context(), pod, ips); err != nil {
			t.Fatal(err)
		}
	}
	at := func(ip string, port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(ip), port) }
	onB, bridgeB := b.ns.Address.String(), "10.244.1.1"
	seenAs(t, "from outside", outside, at(onB, 80), nstest.BridgeAddress.String())
	seenAs(t, "from outside, one address", outside, at(onB, 81), nstest.BridgeAddress.String())
	seenAs(t, "from another node's pod", podA.Do, at(onB, 80), ipsA[0].String())
	seenAs(t, "from the node", b.ns.Do, at(onB, 80), onB)
	seenAs(t, "from localhost", b.ns.Do, at("127.0.0.1", 80), bridgeB)
	seenAs(t, "from localhost, one address", b.ns.Do, at("127.0.0.1", 81), bridgeB)
	seenAs(t, "from a pod of the node", other.Do, at(onB, 80), bridgeB)
	seenAs(t, "from the pod itself", podB.Do, at(onB, 80), bridgeB)

	// A restart closes no port and cuts no connection, also while the new kubelet does not know of the pods yet.
	through := open(t, outside, "tcp", at(onB, 80))
	datagrams := open(t, outside, "udp", at(onB, 80))
	ask(t, through)
	ask(t, datagrams)
	b.stop()
	b.staleRoute("10.244.99.0/24", a.ns.Address)
	b.start()
	eventually.True(t, "round after the restart", func() bool { return !b.hasRoute("10.244.99.0/24") })
	ask(t, through)
	seenAs(t, "after a restart", outside, at(onB, 80), nstest.BridgeAddress.String())

	// Somebody flushes the rules of the machine: the next round brings them back.
	b.ns.Do(t, func() {
		for _, table := range []string{b.network.names.rules, b.network.names.ports} {
			if err := netfilter.RemoveTable(table); err != nil {
				t.Error(err)
			}
		}
	})
	b.network.poke()
	eventually.True(t, "rules", func() (there bool) {
		b.ns.Do(t, func() {
			rules, err := netfilter.IsComplete(b.network.names.rules)
			ports, portsErr := netfilter.IsComplete(b.network.names.ports)
			if err := errors.Join(err, portsErr); err != nil {
				t.Error(err)
			}
			there = rules && ports
		})
		return there
	})
	seenAs(t, "after a flush", outside, at(onB, 80), nstest.BridgeAddress.String())

	// The port goes over to another pod, with the datagrams of those who go on sending.
	if err := b.network.Remove(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if conn, err := net.DialTimeout("tcp", at(onB, 80).String(), time.Minute); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			conn.Close()
		}
		t.Errorf("a port that was closed: %v", err)
	}
	heir := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "three"}}
	heir.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{port("UDP", 80, "", inOther)}}}
	if err := b.network.Set(t.Context(), heir, ipsOther); err != nil {
		t.Fatal(err)
	}
	if _, got := askBoth(t, datagrams); got != inOther.String() {
		t.Errorf("datagrams still go to %s, want %s", got, inOther)
	}

	left := b.network.Pods()
	slices.Sort(left)
	if !slices.Equal(left, []types.UID{"three", "two"}) {
		t.Errorf("pods with host ports: %v", left)
	}
	for _, uid := range left {
		if err := b.network.Remove(t.Context(), uid); err != nil {
			t.Fatal(err)
		}
	}
	b.ns.Do(t, func() {
		if left, err := netfilter.Tables(b.network.names.ports); err != nil || len(left) > 0 {
			t.Errorf("without ports: %v, %v", left, err)
		}
	})
}

// With --node-network-mode=none the bridge and the host ports are ours, routes and masquerading somebody else's.
func TestModeNone(t *testing.T) {
	nstest.Need(t)
	server := apiservertest.Start(t)
	a, b := newNode(t, server, ModeNone, "a", "10.244.0.0/24"), newNode(t, server, ModeNone, "b", "10.244.1.0/24")
	a.ready()
	b.ready()
	podA, ipsA := a.pod()
	_, ipsA2 := a.pod()
	if len(ipsA2) != 1 || ipsA2[0] == ipsA[0] {
		t.Errorf("addresses %v and %v", ipsA, ipsA2)
	}
	onNode := serve(t, a.ns.Do, netip.AddrPortFrom(a.ns.Address, 0).String())
	seenAs(t, "pod to its node", podA.Do, onNode, ipsA[0].String())
	if a.hasRoute("10.244.1.0/24") {
		t.Error("there is a route to the other node's pods")
	}
	inA := serve(t, podA.Do, netip.AddrPortFrom(ipsA[0], 0).String())
	object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "one"}}
	object.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{
		{Protocol: "TCP", HostPort: 80, ContainerPort: int32(inA.Port())}, {Protocol: "UDP", HostPort: 80, ContainerPort: int32(inA.Port())},
	}}}
	if err := a.network.Set(t.Context(), object, ipsA); err != nil {
		t.Fatal(err)
	}
	seenAs(t, "host port at localhost", a.ns.Do, netip.MustParseAddrPort("127.0.0.1:80"), "10.244.0.1")
	seenAs(t, "host port of the pod itself", podA.Do, netip.AddrPortFrom(a.ns.Address, 80), "10.244.0.1")
	// As the bridge takes packets of 127.0.0.0/8 for that, something has to keep those of pods off what listens on localhost.
	var heard, said net.PacketConn
	var err error
	a.ns.Do(t, func() { heard, err = net.ListenPacket("udp4", "0.0.0.0:0") })
	if err != nil {
		t.Fatal(err)
	}
	defer heard.Close()
	podA.Do(t, func() {
		var lo netlink.Link
		if lo, err = netlink.LinkByName("lo"); err == nil {
			err = netlink.AddrDel(lo, &netlink.Addr{IPNet: ipNet(netip.MustParsePrefix("127.0.0.1/8"))}) // so that it is elsewhere
		}
		if err == nil {
			said, err = net.ListenPacket("udp4", ipsA[0].String()+":0")
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	on := heard.LocalAddr().(*net.UDPAddr).Port
	for _, to := range []net.IP{net.IPv4(127, 0, 0, 1), a.ns.Address.AsSlice()} {
		if _, err := said.WriteTo([]byte(to.String()), &net.UDPAddr{IP: to, Port: on}); err != nil {
			t.Fatal(err)
		}
	}
	first := make([]byte, 100)
	if n, _, err := heard.ReadFrom(first); err != nil || string(first[:n]) != a.ns.Address.String() {
		t.Errorf("the node has got a pod's packet to %s, %v", first[:n], err)
	}
	a.network.mu.Lock()
	defer a.network.mu.Unlock()
	if len(a.network.peers) != 1 {
		t.Errorf("%d Nodes are watched, want the own one", len(a.network.peers))
	}
}
