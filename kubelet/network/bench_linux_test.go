package network

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/nstest"
)

// BenchmarkSync measures what a round costs a node in a cluster of 1,000: when nothing has changed (every 30 s), and when a Node has come or gone.
func BenchmarkSync(b *testing.B) {
	nstest.Need(b)
	const nodes = 1000
	for _, mode := range []Mode{ModeHostGW, ModeVXLAN} {
		for _, change := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/changed=%t", mode, change), func(b *testing.B) {
				ns := nstest.NewNamespace(b)
				dir := b.TempDir()
				n := &Network{
					config: Config{NodeName: "node-0", Mode: mode, CNIConfDir: filepath.Join(dir, "net.d"), StateDir: dir},
					names:  namesFor(dir, "node-0"),
				}
				var err error
				if n.ports, err = newHostPorts(filepath.Join(dir, "hostports.json")); err != nil {
					b.Fatal(err)
				}
				self := testPeer("node-0", "10.240.0.0/24", ns.Address.String())
				peers := make([]peer, 0, nodes)
				for i := 1; i < nodes; i++ {
					address := nstest.BridgeAddress // on the network of eth0
					if mode == ModeVXLAN {
						address = netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
					}
					peers = append(peers, testPeer(fmt.Sprint("node-", i), fmt.Sprintf("10.%d.%d.0/24", 240+i>>8, i&255), address.String()))
				}
				ns.Do(b, func() {
					if err := n.sync(self, peers); err != nil {
						b.Fatal(err)
					}
					one := slices.Clone(peers[:nodes-2])
					b.ReportAllocs()
					b.ResetTimer()
					for i := 0; b.Loop(); i++ {
						now := peers
						if change && i%2 == 0 {
							now = one
						}
						if err := n.sync(self, now); err != nil {
							b.Fatal(err)
						}
					}
				})
			})
		}
	}
}

// BenchmarkSeen measures what a heartbeat of another node costs.
func BenchmarkSeen(b *testing.B) {
	n := &Network{peers: map[string]peer{}, wake: make(chan struct{}, 1)}
	nodes := testNodes(1000)
	for _, node := range nodes {
		n.seen(node)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		n.seen(nodes[i%len(nodes)])
	}
}

func testNodes(count int) []*corev1.Node {
	nodes := make([]*corev1.Node, count)
	for i := range nodes {
		nodes[i] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}, Spec: corev1.NodeSpec{PodCIDRs: []string{fmt.Sprintf("10.%d.%d.0/24", 240+i>>8, i&255)}}}
		nodes[i].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.1.%d.%d", i>>8, i&255)}}
	}
	return nodes
}
