package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// compactKey is where all API servers of an etcd agree on who compacts. Its value is the last compacted revision,
// its version counts the compactions.
const compactKey = "compact_rev_key"

// Run compacts etcd's history every CompactInterval until ctx ends. Any number of servers may run it on one etcd:
// each interval one of them wins. What goes wrong is logged and tried again at the next interval.
// While etcd refuses writes for lack of space, Run makes space as far as it can, and ends etcd's NOSPACE alarm when there is some.
func (s *Store) Run(ctx context.Context) error {
	if s.compact <= 0 {
		<-ctx.Done()
		return nil
	}
	ticker, often := time.NewTicker(s.compact), time.NewTicker(reliefInterval)
	defer ticker.Stop()
	defer often.Stop()
	c := compactor{engine: s.engine}
	r := relief{engine: s.engine, log: s.log}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-often.C:
			r.step(ctx)
			continue
		case <-ticker.C:
		}
		rev, err := c.tick(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("the store could not compact etcd's history; it tries again", "error", err)
		}
		if rev > 0 {
			s.log.Debug("the store compacted etcd's history", "revision", rev)
		}
	}
}

// compactor is one server's part in the compaction, after kube-apiserver's (storage/etcd3/compact.go):
//
//	tick: if version(compact_rev_key) is what it was at my last tick, nobody has compacted since. I put the revision
//	      of my last tick there, and compact to it. Otherwise somebody has: I adopt the version and do nothing.
//
// So history lives for one to two intervals. At the first tick there is no revision yet: nothing is compacted.
type compactor struct {
	engine  engine
	version int64 // of compact_rev_key at the last tick
	rev     int64 // etcd's revision at the last tick
}

// tick returns the revision compacted to, 0 for none.
func (c *compactor) tick(ctx context.Context) (int64, error) {
	key := []byte(compactKey)
	resp, err := c.engine.txn(ctx, &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Result:      pb.Compare_EQUAL,
			Target:      pb.Compare_VERSION,
			Key:         key,
			TargetUnion: &pb.Compare_Version{Version: c.version},
		}},
		Success: []*pb.RequestOp{{Request: &pb.RequestOp_RequestPut{
			RequestPut: &pb.PutRequest{Key: key, Value: strconv.AppendInt(nil, c.rev, 10)},
		}}},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}},
	})
	if err != nil {
		return 0, fmt.Errorf("agree on compaction: %w", err)
	}
	to := c.rev
	c.rev = resp.Header.Revision
	if !resp.Succeeded {
		c.version = 0
		if now := current(resp); now != nil {
			c.version = now.Version
		}
		return 0, nil
	}
	c.version++
	if to == 0 {
		return 0, nil
	}
	if err := c.engine.compactTo(ctx, to); err != nil && !errors.Is(err, ErrCompacted) {
		return 0, fmt.Errorf("compact to revision %d: %w", to, err)
	}
	return to, nil
}
