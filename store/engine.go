package store

import (
	"context"
	"log/slog"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// engine is what the store asks of etcd, with two implementations: local (in the process, no network, no copies)
// and remote (gRPC). Errors are this package's sentinels or the context's own, see mapError.
type engine interface {
	// txn runs a transaction. When it fails the caller cannot know whether it happened, unless the error is certain.
	txn(ctx context.Context, r *etcdserverpb.TxnRequest) (*etcdserverpb.TxnResponse, error)

	// get reads one key, linearizably; nil when there is none.
	get(ctx context.Context, key []byte) (*mvccpb.KeyValue, error)

	// scan reads [key, end) in key order at rev, or at the newest revision (linearizably) when rev is 0.
	// limit 0 is all; keysOnly leaves the values out. With borrow keys and values are valid until the result's release.
	scan(ctx context.Context, key, end []byte, o scanOptions) (scanResult, error)

	// revision is the newest revision, linearizably.
	revision(ctx context.Context) (int64, error)
	// cheapRevision says that revision now costs less than sharing it would.
	cheapRevision() bool

	// health is one read that needs a quorum, tried once.
	health(ctx context.Context) error

	// compactTo drops history before rev.
	compactTo(ctx context.Context, rev int64) error

	// pressed says that etcd refuses writes for lack of space, as far as is known; relieve tries to make it accept them again.
	pressed() bool
	// full says in one line what is refused for lack of space; "" while there is space.
	full() string
	// stale is as of disarm.
	relieve(ctx context.Context, log *slog.Logger, stale bool) error

	// grant makes a lease of ttl seconds.
	grant(ctx context.Context, ttl int64) (id int64, err error)

	// watch opens a stream of the changes of [key, end) from revision from on.
	watch(ctx context.Context, key, end []byte, from int64) (watchStream, error)

	close() error
}

type scanOptions struct {
	rev      int64
	limit    int64
	keysOnly bool
	borrow   bool
}

type scanResult struct {
	kvs  []*mvccpb.KeyValue
	rev  int64 // the revision read at
	more bool

	borrowed func() // nil: the keys and values are the caller's to keep
}

// release ends the use of what was borrowed.
func (r scanResult) release() {
	if r.borrowed != nil {
		r.borrowed()
	}
}

// watchStream is one connection's part of a feed. It is over at its first error.
type watchStream interface {
	// responses carries whole revisions in order. It is closed when the stream is over; err says why.
	responses() <-chan watchResponse
	err() error
	// requestProgress asks for a response without events as soon as everything up to now was sent. It does not
	// block; it may be ignored while the stream still catches up.
	requestProgress()
	close()
}

// watchResponse is a run of whole revisions, or progress up to rev when there are no events.
type watchResponse struct {
	events []*mvccpb.Event
	rev    int64
}

// prefixEnd is the first key behind all keys with the prefix; "\x00" (to the end of all keys) when there is none.
func prefixEnd(prefix string) []byte {
	end := []byte(prefix)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return []byte{0}
}
