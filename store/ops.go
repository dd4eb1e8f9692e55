package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Create puts value at key and returns its revision; ErrExists when there is one already. A ttl above 0 lets it
// disappear that long (up to a minute more: see leases) after now.
func (s *Store) Create(ctx context.Context, key string, value []byte, ttl time.Duration) (rev int64, err error) {
	defer s.metrics.observe("create", key, time.Now(), &err)
	rev, _, ok, err := s.put(ctx, key, value, 0, ttl)
	if err != nil {
		return 0, fmt.Errorf("create %s: %w", key, err)
	}
	if !ok {
		return 0, fmt.Errorf("create %s: %w", key, ErrExists)
	}
	return rev, nil
}

// Get reads the newest value at key; ErrNotFound when there is none.
func (s *Store) Get(ctx context.Context, key string) (_ KV, err error) {
	defer s.metrics.observe("get", key, time.Now(), &err)
	kv, err := s.engine.get(ctx, []byte(key))
	if err == nil && kv == nil {
		err = ErrNotFound
	}
	if err != nil {
		return KV{}, fmt.Errorf("get %s: %w", key, err)
	}
	return s.seals.openKV(ctx, toKV(kv)), nil
}

// Update puts value at key if the key's revision is ifRev, and returns the new revision; a *ConflictError otherwise.
// ifRev 0 stands for a key that is not there. ttl is as in Create.
func (s *Store) Update(ctx context.Context, key string, value []byte, ifRev int64, ttl time.Duration) (rev int64, err error) {
	defer s.metrics.observe("update", key, time.Now(), &err)
	rev, current, ok, err := s.put(ctx, key, value, ifRev, ttl)
	if err != nil {
		return 0, fmt.Errorf("update %s: %w", key, err)
	}
	if !ok {
		return 0, s.conflict(ctx, key, current)
	}
	return rev, nil
}

// Delete removes key if its revision is ifRev, and returns the revision of the deletion; a *ConflictError otherwise,
// and ErrNotFound for ifRev 0 when there is nothing.
func (s *Store) Delete(ctx context.Context, key string, ifRev int64) (rev int64, err error) {
	defer s.metrics.observe("delete", key, time.Now(), &err)
	then := &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{Key: []byte(key)}}}
	resp, err := s.engine.txn(ctx, compareAndSwap([]byte(key), ifRev, then))
	if err != nil {
		return 0, fmt.Errorf("delete %s: %w", key, writeError(err))
	}
	if !resp.Succeeded {
		return 0, s.conflict(ctx, key, current(resp))
	}
	if resp.Responses[0].GetResponseDeleteRange().GetDeleted() == 0 {
		return 0, fmt.Errorf("delete %s: %w", key, ErrNotFound)
	}
	return resp.Header.Revision, nil
}

// put is the transaction of Create and Update. ok is false when the compare failed; current (nil: none) is what the
// key holds then.
func (s *Store) put(ctx context.Context, key string, value []byte, ifRev int64, ttl time.Duration) (rev int64, now *mvccpb.KeyValue, ok bool, err error) {
	if value, err = s.seals.seal(ctx, key, value); err != nil {
		return 0, nil, false, err
	}
	var lease int64
	if ttl > 0 {
		if lease, err = s.leases.take(ctx, s.engine, ttl); err != nil {
			return 0, nil, false, err
		}
	}
	then := &pb.PutRequest{Key: []byte(key), Value: value, Lease: lease}
	r := compareAndSwap(then.Key, ifRev, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: then}})
	resp, err := s.engine.txn(ctx, r)
	if lease != 0 && errors.Is(err, rpctypes.ErrLeaseNotFound) {
		// The shared lease ran out, or was revoked, behind our back. Nothing was written: once more with a new one.
		s.leases.forget(lease)
		if then.Lease, err = s.leases.take(ctx, s.engine, ttl); err != nil {
			return 0, nil, false, err
		}
		resp, err = s.engine.txn(ctx, r)
	}
	if err != nil {
		return 0, nil, false, writeError(err)
	}
	if !resp.Succeeded {
		return 0, current(resp), false, nil
	}
	return resp.Header.Revision, nil, true, nil
}

// compareAndSwap is the transaction: if key's revision is ifRev then do it, else read key.
func compareAndSwap(key []byte, ifRev int64, then *pb.RequestOp) *pb.TxnRequest {
	return &pb.TxnRequest{
		Compare: []*pb.Compare{{
			Result:      pb.Compare_EQUAL,
			Target:      pb.Compare_MOD,
			Key:         key,
			TargetUnion: &pb.Compare_ModRevision{ModRevision: ifRev},
		}},
		Success: []*pb.RequestOp{then},
		Failure: []*pb.RequestOp{{Request: &pb.RequestOp_RequestRange{RequestRange: &pb.RangeRequest{Key: key}}}},
	}
}

// current is what the Else branch of compareAndSwap read, nil for nothing.
func current(resp *pb.TxnResponse) *mvccpb.KeyValue {
	if kvs := resp.Responses[0].GetResponseRange().GetKvs(); len(kvs) > 0 {
		return kvs[0]
	}
	return nil
}

func (s *Store) conflict(ctx context.Context, key string, now *mvccpb.KeyValue) error {
	if now == nil {
		return &ConflictError{Current: KV{Key: key}}
	}
	return &ConflictError{Current: s.seals.openKV(ctx, toKV(now)), Found: true}
}

// toKV is a pair as etcd has it; what it holds may be encrypted.
func toKV(kv *mvccpb.KeyValue) KV {
	return KV{Key: string(kv.Key), Value: kv.Value, ModRev: kv.ModRevision}
}
