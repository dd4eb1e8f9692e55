package serviceip

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/store"
)

const (
	repairInterval = 3 * time.Minute
	// grace is how old something taken must be before nobody can still be about to write its service. Requests end
	// after 60 s; the rest is for clocks that differ.
	grace = 2 * time.Minute
)

// Config says what to allocate from.
type Config struct {
	Store *store.Store
	// ServiceRanges are the networks of cluster IPs, one or two of different families; the first is what services get
	// that do not ask for a family. Default 10.96.0.0/12. IPv6 networks have at least 64 bits.
	ServiceRanges []netip.Prefix
	// NodePorts is the range of node ports. Default 30000-32767.
	NodePorts PortRange
	// Event, if set, is told what repair found about a service: a reason and a sentence, as for an Event of type
	// Warning.
	Event  func(svc *corev1.Service, reason, note string)
	Logger *slog.Logger // nil discards
}

// PortRange is the ports from First to Last, both included.
type PortRange struct{ First, Last int32 }

func (r PortRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

func (r PortRange) contains(port int32) bool { return r.First <= port && port <= r.Last }

// Allocator hands out cluster IPs and node ports. All methods may be called from any goroutine.
type Allocator struct {
	ips    addressPool
	ports  *portPool
	ranges []addressRange // one for each family; the first is the default

	store *store.Store
	event func(svc *corev1.Service, reason, note string)
	log   *slog.Logger
	now   func() time.Time
	leaks leakCounts
}

// New returns an allocator; Run keeps what it allocates from in order.
func New(cfg Config) (*Allocator, error) {
	if len(cfg.ServiceRanges) == 0 {
		cfg.ServiceRanges = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}
	}
	if cfg.NodePorts == (PortRange{}) {
		cfg.NodePorts = PortRange{30000, 32767}
	}
	if cfg.NodePorts.First < 1 || cfg.NodePorts.Last > 65535 || cfg.NodePorts.First > cfg.NodePorts.Last {
		return nil, fmt.Errorf("node port range %s: no valid range of ports", cfg.NodePorts)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Allocator{store: cfg.Store, event: cfg.Event, log: cfg.Logger, now: time.Now}
	for _, prefix := range cfg.ServiceRanges {
		r, err := newAddressRange(prefix)
		if err != nil {
			return nil, fmt.Errorf("service range %s: %w", prefix, err)
		}
		if a.rangeOf(r.family) != nil {
			return nil, fmt.Errorf("service range %s: there is another %s range", prefix, r.family)
		}
		a.ranges = append(a.ranges, r)
	}
	a.ips = addressPool{store: cfg.Store, now: func() time.Time { return a.now() }}
	a.ports = newPortPool(cfg.Store, cfg.NodePorts)
	if a.event == nil {
		a.event = func(*corev1.Service, string, string) {}
	}
	return a, nil
}

// Run repairs at once and then every few minutes, until ctx ends.
func (a *Allocator) Run(ctx context.Context) error {
	ticker := time.NewTicker(repairInterval)
	defer ticker.Stop()
	for {
		if err := a.Repair(ctx); err != nil && ctx.Err() == nil {
			a.log.Error("the API server could not compare cluster IPs and node ports with the services; it tries again", "after", repairInterval, "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// rangeOf returns the range of a family, nil when the cluster has none.
func (a *Allocator) rangeOf(family corev1.IPFamily) *addressRange {
	for i := range a.ranges {
		if a.ranges[i].family == family {
			return &a.ranges[i]
		}
	}
	return nil
}

var (
	errFull           = errors.New("range is full")
	errAddressTaken   = errors.New("provided IP is already allocated")
	errPortTaken      = errors.New("provided port is already allocated")
	errNotConfigured  = errors.New("not configured on this cluster")
	errTooManyRetries = errors.New("others kept changing it")
)
