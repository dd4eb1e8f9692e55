package store

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	loadKeys    = 1000 // keys in one worker's range
	loadWorkers = 4    // reading and, in fn, decoding overlap even on one core

	// A request asks for so many values that it should come to loadBytes. How large they are is known after the
	// first: 64 values of the largest size etcd takes, by all workers, still fit in memory.
	loadFirst = 64
	loadBytes = 4 << 20
)

// LoadAll reads every value under prefix at revision rev (0: the newest, linearizably) as fast as etcd gives them,
// and returns the revision. fn is called from several goroutines at once, each time with a run of neighbouring keys
// in order (at most a few megabytes); the runs come in no order, and have no key between them. The values are valid until fn
// returns: what fn keeps of them it copies. The first error of fn ends the load and is returned; ErrCompacted when rev left
// etcd's history meanwhile.
func (s *Store) LoadAll(ctx context.Context, prefix string, rev int64, fn func([]KV) error) (_ int64, err error) {
	defer s.metrics.observe("list", prefix, time.Now(), &err)
	if rev, err = s.loadAll(ctx, prefix, rev, fn); err != nil {
		return 0, fmt.Errorf("load %s: %w", prefix, err)
	}
	return rev, nil
}

// loadAll asks for the keys first, which etcd has in memory, and then for the values by ranges between them.
// Page after page would know each page's first key only when the one before has come.
func (s *Store) loadAll(ctx context.Context, prefix string, rev int64, fn func([]KV) error) (int64, error) {
	end := prefixEnd(prefix)
	keys, err := s.engine.scan(ctx, []byte(prefix), end, scanOptions{rev: rev, keysOnly: true, borrow: true})
	if err != nil {
		return 0, err
	}
	defer keys.release()
	rev = keys.rev
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(loadWorkers)
	for i := 0; i < len(keys.kvs) && ctx.Err() == nil; i += loadKeys {
		from, to := keys.kvs[i].Key, end
		if i+loadKeys < len(keys.kvs) {
			to = keys.kvs[i+loadKeys].Key
		}
		g.Go(func() error { return s.loadRange(ctx, from, to, rev, fn) })
	}
	return rev, g.Wait()
}

func (s *Store) loadRange(ctx context.Context, from, to []byte, rev int64, fn func([]KV) error) error {
	for limit := int64(loadFirst); ; {
		page, err := s.engine.scan(ctx, from, to, scanOptions{rev: rev, limit: limit, borrow: true})
		if err != nil {
			return err
		}
		if len(page.kvs) == 0 {
			page.release()
			return nil
		}
		from = after(page.kvs[len(page.kvs)-1].Key)
		bytes := 0
		for _, kv := range page.kvs {
			bytes += len(kv.Value)
		}
		limit = max(1, min(4*limit, loadBytes*int64(len(page.kvs))/int64(bytes+1)))
		err = fn(s.appendKVs(ctx, nil, page.kvs))
		page.release()
		if err != nil || !page.more {
			return err
		}
	}
}
