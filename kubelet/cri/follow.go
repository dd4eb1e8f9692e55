package cri

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/panics"
	"vigil/kubelet"
)

// How often everything is listed: as a safety net beside events, instead of them, and after a failure.
const (
	relistWithEvents    = 300 * time.Second
	relistWithoutEvents = time.Second
	firstRelist         = time.Second // after events have begun: the runtime may have begun a little after it said so
	firstPause          = 50 * time.Millisecond
	longestPause        = time.Second
	retryEvents         = 5 * time.Minute // with a runtime that does not send any
)

// Follow implements kubelet.Runtime. It reads the runtime's events (containerd always sends them, CRI-O with enable_pod_events), and
// begins anew when they end: everything is listed then, and the pods that have changed meanwhile are reported. It also rotates logs.
func (r *Runtime) Follow(ctx context.Context, changed func(types.UID)) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return r.followEvents(ctx, changed) })
	both.Go(func() error { return r.rotateLogs(ctx) })
	return both.Wait()
}

func (r *Runtime) followEvents(ctx context.Context, changed func(types.UID)) error {
	pause := firstPause
	lost := false
	for ctx.Err() == nil {
		began := time.Now()
		err := panics.Try(r.logger, panics.Node, func() error { return r.followOnce(ctx, changed) })
		if ctx.Err() != nil {
			break
		}
		r.cache.doubtAll()
		if worked := time.Since(began) > longestPause; worked || !lost {
			pause, lost = firstPause, true
			r.logger.Warn("the container runtime does not answer; the kubelet tries again until it does", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
	return ctx.Err()
}

// followOnce follows until the events end or a relist fails.
func (r *Runtime) followOnce(ctx context.Context, changed func(types.UID)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- panics.Try(r.logger, panics.Node, func() error { return r.readEvents(ctx, changed) })
	}()
	finish := func(err error) error {
		cancel()
		if ended != nil {
			<-ended
		}
		return err
	}

	if err := r.relistFor(ctx, changed); err != nil {
		return finish(err)
	}
	interval := relistWithEvents
	relist := time.NewTimer(firstRelist)
	defer relist.Stop()
	var again <-chan time.Time // when events are tried again
	for {
		select {
		case err := <-ended:
			if !notOffered(err) {
				return err
			}
			r.logger.Info("the container runtime sends no events; the kubelet lists its containers every second instead")
			interval, again, ended = relistWithoutEvents, time.After(retryEvents), nil
			relist.Reset(interval)
		case <-again:
			return errors.New("time to ask for events again")
		case <-relist.C:
			if err := r.relistFor(ctx, changed); err != nil {
				return finish(err)
			}
			relist.Reset(interval)
		}
	}
}

// notOffered says whether a stream of events has ended because the runtime has none to send.
func notOffered(err error) bool { return status.Code(err) == codes.Unimplemented }

func (r *Runtime) relistFor(ctx context.Context, changed func(types.UID)) error {
	pods, err := r.relist(ctx)
	for uid := range pods {
		changed(uid)
	}
	return err
}

func (r *Runtime) readEvents(ctx context.Context, changed func(types.UID)) error {
	prefix, err := r.prefix(ctx)
	if err != nil {
		return err
	}
	stream, err := r.client.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
	if err != nil {
		return err
	}
	var ends sync.WaitGroup
	defer ends.Wait()
	for {
		event, err := stream.Recv()
		if err != nil {
			return err
		}
		if uid, news := r.take(prefix, event, func(uid types.UID, sandbox string, c *runtimeapi.ContainerStatus) {
			ends.Go(func() {
				defer panics.Catch(r.logger, panics.Node, "uid", uid, "container", c.Id)
				if r.cache.mergeContainer(uid, r.toContainer(prefix, sandbox, c), false) {
					changed(uid)
				}
			})
		}); news {
			changed(uid)
		}
	}
}

// take merges what an event says, and returns the pod it is about and whether anything has changed. Containers that have ended are handed to
// ended, which merges them without holding up the next event: what they have to say is read from files of theirs.
func (r *Runtime) take(prefix string, event *runtimeapi.ContainerEventResponse, ended func(pod types.UID, sandbox string, c *runtimeapi.ContainerStatus)) (uid types.UID, changed bool) {
	if event.ContainerEventType == runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT {
		uid, changed = r.cache.remove(event.ContainerId)
	}
	s := event.PodSandboxStatus
	if s == nil || !r.cache.hasSandbox(s.Id) {
		return uid, changed // one that is being made tells of itself when it is
	}
	uid = types.UID(s.Labels[podUIDLabel])
	if r.cache.mergeSandbox(uid, "", "", toSandbox(prefix, s)) {
		changed = true
	}
	for _, c := range event.ContainersStatuses {
		if c.State == runtimeapi.ContainerState_CONTAINER_UNKNOWN {
			r.cache.doubt(uid)
			changed = true
			continue
		}
		switch {
		case !r.goesForward(c):
		case toState(c.State) == kubelet.ContainerExited:
			ended(uid, s.Id, c)
		case r.cache.mergeContainer(uid, r.toContainer(prefix, s.Id, c), false):
			changed = true
		}
	}
	return uid, changed
}

// goesForward says whether a container is further on than is known, so that most of what events repeat is not converted.
func (r *Runtime) goesForward(c *runtimeapi.ContainerStatus) bool {
	old, _ := r.cache.container(c.Id)
	return old == nil || toState(c.State) > old.State
}
