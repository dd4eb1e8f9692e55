package store

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// remoteWatch is one gRPC watch stream with one watch on it.
type remoteWatch struct {
	stream   pb.Watch_WatchClient
	out      chan watchResponse
	progress chan struct{}
	stop     context.CancelFunc
	done     chan struct{} // closed when run has returned, after which failure may be read
	failure  error
}

// remoteWatchBuffer is how many responses may wait for a busy reader before gRPC's flow control holds etcd back.
const remoteWatchBuffer = 64

func (r *remote) watch(ctx context.Context, key, end []byte, from int64) (watchStream, error) {
	parent := ctx
	// A member cut off from its leader would stay silent for ever; with this it ends the stream.
	ctx, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	stream, err := r.watcher.Watch(ctx, r.opts...)
	if err != nil {
		stop()
		return nil, mapError(parent, err)
	}
	create := &pb.WatchCreateRequest{Key: key, RangeEnd: end, StartRevision: from, ProgressNotify: true, Fragment: true}
	if err := stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: create}}); err != nil {
		_, err = stream.Recv() // what ended the stream
		stop()
		return nil, mapError(parent, err)
	}
	w := &remoteWatch{
		stream:   stream,
		out:      make(chan watchResponse, remoteWatchBuffer),
		progress: make(chan struct{}, 1),
		stop:     stop,
		done:     make(chan struct{}),
	}
	go w.run(ctx)
	return w, nil
}

func (w *remoteWatch) run(ctx context.Context) {
	defer close(w.done)
	defer close(w.out)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.receive(ctx) })
	g.Go(func() error { return w.send(ctx) })
	w.failure = g.Wait()
}

// receive passes responses on, put together again where etcd cut them for their size: a revision stays whole.
func (w *remoteWatch) receive(ctx context.Context) error {
	var pending watchResponse
	for {
		resp, err := w.stream.Recv()
		switch {
		case err != nil:
			return mapError(ctx, err)
		case resp.CompactRevision != 0:
			return ErrCompacted
		case resp.Canceled:
			return canceled(resp.CancelReason)
		case resp.Created:
			continue
		}
		pending.events = append(pending.events, resp.Events...)
		if resp.Fragment {
			continue
		}
		pending.rev = resp.Header.Revision
		select {
		case w.out <- pending:
		case <-ctx.Done():
			return ctx.Err()
		}
		pending = watchResponse{}
	}
}

// send passes requests for progress on. It is the only sender after the stream was opened.
func (w *remoteWatch) send(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.progress:
			r := &pb.WatchRequest{RequestUnion: &pb.WatchRequest_ProgressRequest{ProgressRequest: &pb.WatchProgressRequest{}}}
			if w.stream.Send(r) != nil {
				return nil // receive learns why
			}
		}
	}
}

func canceled(reason string) error {
	if reason == rpctypes.ErrCompacted.Error() {
		return ErrCompacted
	}
	if reason == "" {
		reason = "no reason given"
	}
	return fmt.Errorf("%w: etcd canceled the watch: %w", ErrUnavailable, errors.New(reason))
}

func (w *remoteWatch) responses() <-chan watchResponse { return w.out }

func (w *remoteWatch) err() error {
	<-w.done
	return w.failure
}

func (w *remoteWatch) requestProgress() {
	select {
	case w.progress <- struct{}{}:
	default:
	}
}

func (w *remoteWatch) close() {
	w.stop()
	<-w.done
}
