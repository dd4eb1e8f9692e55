package store

import (
	"context"
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// local is the etcd server in this process, called directly: no client, no encoding, no goroutine between.
//
// It is the only voting member of its cluster, and everything it acknowledges it has applied before. So reading its
// applied state is linearizable and needs no round through raft. Should members be added later, sole says so and
// reads go through raft's read index again: an addition is applied here before the new member can take part in any
// decision.
type local struct {
	embedded *Embedded
	server   *etcdserver.EtcdServer
	kv       pb.KVServer
	lease    pb.LeaseServer
}

func newLocal(e *Embedded) *local {
	s := e.etcd.Server
	return &local{embedded: e, server: s, kv: v3rpc.NewQuotaKVServer(s), lease: v3rpc.NewQuotaLeaseServer(s)}
}

func (l *local) sole() bool { return sole(l.server) }

func sole(s *etcdserver.EtcdServer) bool {
	// Members of the interface would copy every member; this is asked for each read.
	c, ok := s.Cluster().(*membership.RaftCluster)
	return ok && len(c.MemberIDs()) == 1
}

func (l *local) cheapRevision() bool { return l.sole() }

// linearize makes the applied state one that contains every write acknowledged before the call.
func (l *local) linearize(ctx context.Context) error {
	if err := l.embedded.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if l.sole() {
		return ctx.Err()
	}
	return mapError(ctx, l.server.LinearizableReadNotify(ctx))
}

func (l *local) txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp, err := l.kv.Txn(ctx, r)
	return resp, mapError(ctx, err)
}

func (l *local) revision(ctx context.Context) (int64, error) {
	if err := l.linearize(ctx); err != nil {
		return 0, err
	}
	return l.server.KV().Rev(), nil
}

func (l *local) get(ctx context.Context, key []byte) (*mvccpb.KeyValue, error) {
	if err := l.linearize(ctx); err != nil {
		return nil, err
	}
	r, err := l.server.KV().Range(ctx, key, nil, mvcc.RangeOptions{})
	if err != nil || len(r.KVs) == 0 {
		return nil, mapLocalError(ctx, err)
	}
	return r.KVs[0], nil
}

func (l *local) scan(ctx context.Context, key, end []byte, o scanOptions) (scanResult, error) {
	if err := l.linearize(ctx); err != nil {
		return scanResult{}, err
	}
	if len(end) == 1 && end[0] == 0 { // how the wire says "to the last key"; mvcc has it as empty
		end = []byte{}
	}
	limit := o.limit
	if limit > 0 {
		limit++ // to learn whether there is more
	}
	r, err := l.server.KV().Range(ctx, key, end, mvcc.RangeOptions{Rev: o.rev, Limit: limit, FastKeysOnly: o.keysOnly})
	if err != nil {
		return scanResult{}, mapLocalError(ctx, err)
	}
	res := scanResult{kvs: r.KVs, rev: o.rev}
	if o.rev == 0 {
		res.rev = r.Rev
	}
	if o.limit > 0 && int64(len(res.kvs)) > o.limit {
		res.kvs, res.more = res.kvs[:o.limit], true
	}
	return res, nil
}

func (l *local) compactTo(ctx context.Context, rev int64) error {
	_, err := l.kv.Compact(ctx, &pb.CompactionRequest{Revision: rev})
	return mapError(ctx, err)
}

func (l *local) grant(ctx context.Context, ttl int64) (int64, error) {
	resp, err := l.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: ttl})
	if err != nil {
		return 0, mapError(ctx, err)
	}
	return resp.ID, nil
}

func (l *local) close() error { return nil }

func mapLocalError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, mvcc.ErrCompacted):
		return ErrCompacted
	case errors.Is(err, mvcc.ErrFutureRev):
		return ErrFutureRevision
	}
	return mapError(ctx, err)
}
