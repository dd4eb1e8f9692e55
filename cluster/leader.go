package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// errLostLease ends a component that was the leader and could not renew: another one leads by now, and what it would
// still write could contradict that one.
var errLostLease = errors.New("leader election lost")

// elect does work once the component holds the Lease kube-system/NAME. Durations are upstream's defaults.
func (c *component) elect(ctx context.Context, work func(context.Context) error) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, metav1.NamespaceSystem, c.name, c.client.CoreV1(), c.client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: host + "_" + uuid.NewString(), EventRecorder: c.recorder})
	if err != nil {
		return fmt.Errorf("%s: leader election: %w", c.name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var leading atomic.Bool
	done := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		Name:            c.name,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				leading.Store(true)
				done <- work(ctx)
				cancel()
			},
			OnStoppedLeading: func() {},
		},
	})
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
