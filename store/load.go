package store

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	loadChunk   = 1000 // keys of one call of LoadAll's fn
	loadWorkers = 4    // reading and, in fn, decoding overlap even on one core
)

// LoadAll reads every value under prefix at revision rev (0: the newest, linearizably) as fast as etcd gives them,
// and returns the revision. fn is called from several goroutines at once, each time with a run of neighbouring keys
// in order; the runs come in no order, and have no key between them. The slice is fn's to keep.
// The first error of fn ends the load and is returned; ErrCompacted when rev left etcd's history meanwhile.
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
	keys, err := s.engine.scan(ctx, []byte(prefix), end, scanOptions{rev: rev, keysOnly: true})
	if err != nil {
		return 0, err
	}
	rev = keys.rev
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(loadWorkers)
	for i := 0; i < len(keys.kvs) && ctx.Err() == nil; i += loadChunk {
		from, to := keys.kvs[i].Key, end
		if i+loadChunk < len(keys.kvs) {
			to = keys.kvs[i+loadChunk].Key
		}
		g.Go(func() error {
			page, err := s.engine.scan(ctx, from, to, scanOptions{rev: rev})
			if err != nil {
				return err
			}
			return fn(appendKVs(nil, page.kvs))
		})
	}
	return rev, g.Wait()
}
