package apiserver

import (
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// identities are the open connections, and so who is behind each: a collector of the gauge apiserver_connections. Connections that are
// not HTTP's any more (WebSockets) are left out, and those that have not sent a request yet.
type identities struct {
	mu   sync.Mutex
	open map[net.Conn]*connection
}

func newIdentities() *identities { return &identities{open: map[net.Conn]*connection{}} }

func (i *identities) add(conn net.Conn, c *connection) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.open[conn] = c
}

// remove forgets a connection, and returns what was known of it; nil when it was not.
func (i *identities) remove(conn net.Conn) *connection {
	i.mu.Lock()
	defer i.mu.Unlock()
	c := i.open[conn]
	delete(i.open, conn)
	return c
}

// identityKey is the labels of the gauge.
type identityKey struct{ user, groups, namespace string }

// maxIdentities bounds the number of series: beyond it, connections are counted as those of otherIdentity.
const maxIdentities = 10_000

var (
	otherIdentity   = identityKey{user: "(others)"}
	connectionsDesc = prometheus.NewDesc("apiserver_connections",
		"Open client connections by the identity that their certificate gives them; the namespace is a service account's.",
		[]string{"user", "groups", "namespace"}, nil)
)

// Describe is a prometheus.Collector's.
func (*identities) Describe(ch chan<- *prometheus.Desc) { ch <- connectionsDesc }

// Collect is a prometheus.Collector's.
func (i *identities) Collect(ch chan<- prometheus.Metric) {
	counts := map[identityKey]int{}
	i.mu.Lock()
	for _, c := range i.open {
		user := c.user.Load()
		if user == nil {
			continue
		}
		groups := slices.Clone(user.Groups)
		slices.Sort(groups)
		key := identityKey{user: user.Name, groups: strings.Join(groups, ",")}
		if account, ok := strings.CutPrefix(user.Name, "system:serviceaccount:"); ok {
			key.namespace, _, _ = strings.Cut(account, ":")
		}
		if counts[key] == 0 && len(counts) >= maxIdentities {
			key = otherIdentity
		}
		counts[key]++
	}
	i.mu.Unlock()
	for key, n := range counts {
		ch <- prometheus.MustNewConstMetric(connectionsDesc, prometheus.GaugeValue, float64(n), key.user, key.groups, key.namespace)
	}
}
