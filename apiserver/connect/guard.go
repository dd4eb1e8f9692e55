package connect

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The addresses of nodes and pods are what kubelets say they are. The server has addresses and rights that those who ask it have not, and
// would take requests to itself for requests to a kubelet: so it connects to its own machine for those only who are there.

var errAddress = errors.New("address not allowed")

// guard says what a connection may lead to. What it refuses is refused when the address is dialled, so that a name cannot lead there, either.
type guard struct {
	loopback bool // addresses of the loopback interface
	own      bool // other addresses of this machine
	kubelet  bool // those, too, at the port at which a machine's kubelet is
}

// check says whether an address may be connected to.
func (g guard) check(to netip.AddrPort) error {
	ip := to.Addr().Unmap()
	switch {
	case !reachable(ip, g.loopback):
		return errAddress
	case g.own, ip.IsLoopback(), g.kubelet && to.Port() == DefaultKubeletPort, !machine.has(ip):
		return nil
	}
	return errAddress
}

// dialer connects to what g lets through.
func (g guard) dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return errAddress
		}
		return g.check(to)
	}}
}

// reachable says whether the server may connect to an address on behalf of somebody: not to its own host, nor to what only its link has.
func reachable(ip netip.Addr, loopback bool) bool {
	ip = ip.Unmap()
	return ip.IsGlobalUnicast() || loopback && ip.IsLoopback()
}

// directTransport is for what is said to pods.
func directTransport(g guard) *http.Transport {
	return &http.Transport{
		DialContext:         g.dialer(30 * time.Second).DialContext,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // pods' certificates are theirs, upstream checks none
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 25,

		MaxResponseHeaderBytes: maxAnswer,
	}
}

// machine is this one.
var machine ownAddresses

// ownAddresses are the addresses of a machine's interfaces, as they were within the last few seconds.
type ownAddresses struct {
	mu   sync.Mutex
	seen time.Time
	all  map[netip.Addr]bool
}

const addressesAge = 5 * time.Second

// has says whether an address is the machine's. When the machine cannot say, all are.
func (o *ownAddresses) has(ip netip.Addr) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil || time.Since(o.seen) > addressesAge {
		interfaces, err := net.InterfaceAddrs()
		if err != nil {
			return true
		}
		o.all, o.seen = map[netip.Addr]bool{}, time.Now()
		for _, a := range interfaces {
			if prefix, err := netip.ParsePrefix(a.String()); err == nil {
				o.all[prefix.Addr().Unmap()] = true
			}
		}
	}
	return o.all[ip]
}

// namedAsMachine says whether a node has the name that a kubelet of this machine gives it.
func namedAsMachine(node string) bool {
	name, err := os.Hostname()
	return err == nil && strings.EqualFold(strings.TrimSpace(name), node)
}
