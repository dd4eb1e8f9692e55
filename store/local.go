package store

import (
	"context"
	"errors"
	"sync/atomic"

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

	noSpace atomic.Bool // etcd has refused a write for lack of space
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

// enter begins a read: the applied state contains every write acknowledged before the call. Without an error, leave
// must follow.
func (l *local) enter(ctx context.Context) error {
	if err := l.embedded.enter(); err != nil {
		return err
	}
	err := ctx.Err()
	if err == nil && !l.sole() {
		err = mapError(ctx, l.server.LinearizableReadNotify(ctx))
	}
	if err != nil {
		l.embedded.leave()
	}
	return err
}

func (l *local) leave() { l.embedded.leave() }

func (l *local) txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	if err := l.embedded.enter(); err != nil {
		return nil, &certainError{err}
	}
	defer l.embedded.leave()
	want, bytes := demandOf(r)
	if err := l.embedded.disk.admit(ctx, want, bytes, func() int { return l.stored(ctx, r) }); err != nil {
		return nil, err
	}
	defer l.embedded.disk.finish(bytes)
	resp, err := l.kv.Txn(ctx, r)
	return resp, noteNoSpace(&l.noSpace, mapError(ctx, err))
}

// demandOf returns what a transaction of the store does to the size of the data, and the length of the value it puts.
func demandOf(r *pb.TxnRequest) (want demand, bytes int) {
	put := r.Success[0].GetRequestPut()
	switch {
	case put == nil || string(put.Key) == compactKey:
		return shrinks, 0
	case r.Compare[0].GetModRevision() == 0:
		return grows, len(put.Value)
	}
	return keeps, len(put.Value)
}

// stored is the length of the value that a transaction of the store replaces.
func (l *local) stored(ctx context.Context, r *pb.TxnRequest) int {
	old, err := l.server.KV().Range(ctx, r.Compare[0].Key, nil, mvcc.RangeOptions{})
	if err != nil || len(old.KVs) == 0 {
		return 0
	}
	return len(old.KVs[0].Value)
}

func (l *local) revision(ctx context.Context) (int64, error) {
	if err := l.enter(ctx); err != nil {
		return 0, err
	}
	defer l.leave()
	return l.server.KV().Rev(), nil
}

// health goes through raft, sole member or not: a log that cannot be written to is found out here.
func (l *local) health(ctx context.Context) error {
	if err := l.embedded.enter(); err != nil {
		return err
	}
	defer l.embedded.leave()
	return mapError(ctx, l.server.LinearizableReadNotify(ctx))
}

func (l *local) get(ctx context.Context, key []byte) (*mvccpb.KeyValue, error) {
	if err := l.enter(ctx); err != nil {
		return nil, err
	}
	defer l.leave()
	r, err := l.server.KV().Range(ctx, key, nil, mvcc.RangeOptions{})
	if err != nil || len(r.KVs) == 0 {
		return nil, mapLocalError(ctx, err)
	}
	return r.KVs[0], nil
}

func (l *local) scan(ctx context.Context, key, end []byte, o scanOptions) (scanResult, error) {
	if err := l.enter(ctx); err != nil {
		return scanResult{}, err
	}
	defer l.leave()
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
	if err := l.embedded.enter(); err != nil {
		return err
	}
	defer l.embedded.leave()
	if err := l.embedded.disk.admit(ctx, shrinks, 0, nil); err != nil {
		return err
	}
	defer l.embedded.disk.finish(0)
	_, err := l.kv.Compact(ctx, &pb.CompactionRequest{Revision: rev})
	return mapError(ctx, err)
}

func (l *local) grant(ctx context.Context, ttl int64) (int64, error) {
	if err := l.embedded.enter(); err != nil {
		return 0, err
	}
	defer l.embedded.leave()
	if err := l.embedded.disk.admit(ctx, grows, 0, nil); err != nil {
		return 0, err
	}
	defer l.embedded.disk.finish(0)
	resp, err := l.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: ttl})
	if err != nil {
		return 0, noteNoSpace(&l.noSpace, mapError(ctx, err))
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
