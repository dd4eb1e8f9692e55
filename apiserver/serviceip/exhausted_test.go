package serviceip

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/store/storetest"
)

// Two servers fill the whole range of node ports and a whole network, take what single services give back, and empty both: at every moment just
// what the services have is taken, and a full pool has nothing left, not even in its lower part.
func TestPools_Exhausted(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	s := storetest.New(t)
	servers := [2]*cluster{newCluster(t, s, v4, "fd00:10:96::/120"), newCluster(t, s, v4, "fd00:10:96::/120")}
	for _, c := range servers {
		c.ports = newPortPool(s, PortRange{30000, 32767})
	}
	one := func() *cluster { return servers[rnd.IntN(2)] }
	alive := map[string]*corev1.Service{}
	next := 0
	make := func(ports int, chosen ...int32) (*corev1.Service, error) {
		next++
		svc := service(fmt.Sprint("s", next), withPolicy(prefer))
		if ports > 0 || len(chosen) > 0 {
			svc.Spec.Type, svc.Spec.Ports = corev1.ServiceTypeNodePort, nil
			for i := range ports + len(chosen) {
				p := corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(i + 1)}
				if i < len(chosen) {
					p.NodePort = chosen[i]
				}
				svc.Spec.Ports = append(svc.Spec.Ports, p)
			}
		}
		svc, err := one().create(svc)
		if err == nil {
			alive[svc.Name] = svc
		}
		return svc, err
	}
	check := func(what string) {
		t.Helper()
		var ips []string
		var ports []int32
		for _, svc := range alive {
			ips = append(ips, svc.Spec.ClusterIPs...)
			ports = append(ports, nodePorts(svc)...)
		}
		slices.Sort(ips)
		slices.Sort(ports)
		for _, c := range servers {
			taken := c.takenAddresses()
			if got := slices.Sorted(maps.Keys(taken)); !slices.Equal(got, ips) {
				t.Fatalf("%s: %d addresses are taken, services have %d", what, len(got), len(ips))
			}
			if got := c.takenPorts(); !slices.Equal(got, ports) {
				t.Fatalf("%s: %d ports are taken, services have %d", what, len(got), len(ports))
			}
		}
	}
	full := func(err error, what string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "range is full") {
			t.Fatalf("%s: got %v, want that the range is full", what, err)
		}
	}
	remove := func(svc *corev1.Service) {
		delete(alive, svc.Name)
		one().delete(svc)
	}

	for range 2 {
		// All ports: the upper part first, then the lower one.
		free := 2768
		for free > 0 {
			n := min(free, 1+rnd.IntN(90))
			svc, err := make(n)
			if err != nil {
				t.Fatalf("%d ports are free: %v", free, err)
			}
			if free -= n; free >= 128 { // a 32nd of the range, but at most 128, is the lower part
				for _, p := range nodePorts(svc) {
					if p < 30086 {
						t.Fatalf("port %d was given while the upper part had room", p)
					}
				}
			}
		}
		check("all ports")
		_, err := make(1)
		full(err, "no port is left")
		check("refused for its port")

		// All addresses of both families: 254 and 255.
		for len(alive) < 254 {
			if _, err := make(0); err != nil {
				t.Fatalf("%d services: %v", len(alive), err)
			}
		}
		check("all addresses")
		_, err = make(0)
		full(err, "no address is left")
		check("refused for its address")

		// What one gives back the next one gets, be it asked for or not.
		for i := range 30 {
			var svc *corev1.Service
			for _, svc = range alive {
				if len(nodePorts(svc)) > 0 {
					break
				}
			}
			ports := nodePorts(svc)
			remove(svc)
			if i%10 == 0 {
				check("one less")
			}
			var again *corev1.Service
			if i%2 == 0 {
				again, err = make(len(ports))
			} else {
				again, err = make(len(ports)-1, ports[len(ports)-1])
			}
			if err != nil {
				t.Fatalf("%d ports were given back: %v", len(ports), err)
			}
			got := nodePorts(again)
			slices.Sort(got)
			slices.Sort(ports)
			if !slices.Equal(got, ports) || again.Spec.ClusterIPs[0] != svc.Spec.ClusterIPs[0] {
				t.Fatalf("got %v and %v, given back were %v and %v", again.Spec.ClusterIPs, got, svc.Spec.ClusterIPs, ports)
			}
			if _, err := make(0); err == nil {
				t.Fatal("one address too many")
			}
		}
		check("full again")

		for _, svc := range alive {
			remove(svc)
			if len(alive)%50 == 0 {
				check("emptying")
			}
		}
	}
}

// The places of the smallest and the largest networks are all different addresses inside.
func TestAddressRange_Edges(t *testing.T) {
	for prefix, want := range map[string][3]string{ // first, last, number
		"10.0.0.0/30":      {"10.0.0.1", "10.0.0.2", "2"},
		"10.0.0.0/28":      {"10.0.0.1", "10.0.0.14", "14"},
		"10.255.255.0/24":  {"10.255.255.1", "10.255.255.254", "254"},
		"128.0.0.0/1":      {"128.0.0.1", "255.255.255.254", "2147483646"},
		"fd00::/64":        {"fd00::1", "fd00::ffff:ffff:ffff:ffff", "18446744073709551615"},
		"fd00::fff0/124":   {"fd00::fff1", "fd00::ffff", "15"},
		"fd00::1:2:0/127":  {"fd00::1:2:1", "fd00::1:2:1", "1"},
		"fd00::ffff:0/112": {"fd00::ffff:1", "fd00::ffff:ffff", "65535"},
	} {
		r, err := newAddressRange(netip.MustParsePrefix(prefix))
		if err != nil {
			t.Errorf("%s: %v", prefix, err)
			continue
		}
		got := [3]string{r.first.String(), r.at(r.size - 1).String(), fmt.Sprint(r.size)}
		if got != want {
			t.Errorf("%s: got %v, want %v", prefix, got, want)
		}
		if r.static >= r.size && r.size > 16 {
			t.Errorf("%s: %d of %d are the lower part", prefix, r.static, r.size)
		}
		if r.contains(r.first.Prev()) || !r.contains(r.first) || !r.contains(r.at(r.size-1)) || r.contains(r.at(r.size-1).Next()) {
			t.Errorf("%s: contains others than %v", prefix, got)
		}
	}
}
