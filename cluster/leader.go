package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"vigil/apiserver/health"
)

// errLostLease ends a component that was the leader and could not renew: another one leads by now, and what it would
// still write could contradict that one.
var errLostLease = errors.New("leader election lost")

// Election says how a component becomes the one that works. The names are those of upstream's flags, 0 and "" their defaults.
type Election struct {
	LeaderElect   bool          // --leader-elect: work only while holding a Lease
	LeaseDuration time.Duration // --leader-elect-lease-duration, 15 s
	RenewDeadline time.Duration // --leader-elect-renew-deadline, 10 s
	RetryPeriod   time.Duration // --leader-elect-retry-period, 2 s
	// Namespace and Name are the Lease's (--leader-elect-resource-namespace, -name): kube-system and the component's name.
	Namespace, Name string
}

// leading runs work while the component is the leader.
type leading func(ctx context.Context, work func(context.Context) error) error

// leaseSlack is how long after its lease has ended a leader that has not noticed is no longer well.
const leaseSlack = 20 * time.Second

// newElection returns how the component becomes leader, and adds the health check that tells whether it should no longer think it is.
func (c *component) newElection() (leading, error) {
	e := c.config.Election
	if !e.LeaderElect {
		return func(ctx context.Context, work func(context.Context) error) error { return work(ctx) }, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, cmp.Or(e.Namespace, metav1.NamespaceSystem), cmp.Or(e.Name, c.name), c.client.CoreV1(), c.client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: host + "_" + uuid.NewString(), EventRecorder: c.recorder})
	if err != nil {
		return nil, fmt.Errorf("%s: leader election: %w", c.name, err)
	}
	watch := leaderelection.NewLeaderHealthzAdaptor(leaseSlack)
	c.checks = append(c.checks, health.Check{Name: watch.Name(), Func: func(context.Context) error { return watch.Check(&http.Request{}) }})
	config := leaderelection.LeaderElectionConfig{
		Lock: lock, Name: c.name, ReleaseOnCancel: true, WatchDog: watch,
		LeaseDuration: cmp.Or(e.LeaseDuration, 15*time.Second),
		RenewDeadline: cmp.Or(e.RenewDeadline, 10*time.Second),
		RetryPeriod:   cmp.Or(e.RetryPeriod, 2*time.Second),
	}
	return func(ctx context.Context, work func(context.Context) error) error { return c.elect(ctx, config, work) }, nil
}

// elect does work once the component holds the Lease.
func (c *component) elect(ctx context.Context, config leaderelection.LeaderElectionConfig, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var leading atomic.Bool
	done := make(chan error, 1)
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			leading.Store(true)
			done <- work(ctx)
			cancel()
		},
		OnStoppedLeading: func() {},
	}
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		return fmt.Errorf("%s: leader election: %w", c.name, err)
	}
	elector.Run(ctx)
	lost := ctx.Err() == nil // nobody ended it but the election
	if leading.Load() {
		err = <-done
	}
	if err == nil && lost {
		return fmt.Errorf("%s: %w", c.name, errLostLease)
	}
	return err
}
