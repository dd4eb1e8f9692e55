package store

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// listPage is how many values List reads from etcd at once when the caller set no smaller limit: kube-apiserver's
// largest page.
const listPage = 10000

// List returns the values under prefix in key order, all from one revision. It fails with ErrCompacted or
// ErrFutureRevision when o.Rev is out of etcd's history.
func (s *Store) List(ctx context.Context, prefix string, o ListOptions) (_ ListResult, err error) {
	defer s.metrics.observe("list", prefix, time.Now(), &err)
	key, end := []byte(prefix), prefixEnd(prefix)
	if o.From > prefix {
		key = []byte(o.From)
	}
	res := ListResult{Rev: o.Rev}
	for {
		limit := int64(listPage)
		if o.Limit > 0 {
			limit = min(limit, o.Limit-int64(len(res.KVs)))
		}
		page, err := s.engine.scan(ctx, key, end, scanOptions{rev: res.Rev, limit: limit})
		if err != nil {
			return ListResult{}, fmt.Errorf("list %s: %w", prefix, err)
		}
		res.KVs = s.appendKVs(ctx, res.KVs, page.kvs)
		res.Rev = page.rev
		res.More = page.more
		if !page.more || o.Limit > 0 && int64(len(res.KVs)) >= o.Limit {
			return res, nil
		}
		key = after(page.kvs[len(page.kvs)-1].Key)
	}
}

// after is the first possible key behind key.
func after(key []byte) []byte {
	next := make([]byte, len(key)+1)
	copy(next, key)
	return next
}

func (s *Store) appendKVs(ctx context.Context, dst []KV, kvs []*mvccpb.KeyValue) []KV {
	if dst == nil {
		dst = make([]KV, 0, len(kvs))
	}
	for _, kv := range kvs {
		dst = append(dst, s.seals.openKV(ctx, toKV(kv)))
	}
	return dst
}
