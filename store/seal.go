package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
)

// Sealer turns values into what etcd holds of them, and back: encryption at rest. It is called by many goroutines at
// once, and must not change the slices it is given.
type Sealer interface {
	// Seal returns what is to be stored for value at key.
	Seal(ctx context.Context, key string, value []byte) (stored []byte, err error)
	// Open returns the value of what is stored at key. stale says that Seal would do it in another way now.
	Open(ctx context.Context, key string, stored []byte) (value []byte, stale bool, err error)
}

// ErrSealed says that a value is encrypted in a way that this server has no key for.
var ErrSealed = errors.New("stored value cannot be decrypted")

// sealedPrefix is how every encrypted value begins, whoever wrote it.
var sealedPrefix = []byte("k8s:enc:")

// maxUnread bounds how many keys are remembered whose values could not be decrypted.
const maxUnread = 100_000

// seals applies a Sealer to what goes to etcd and comes from it. Values that cannot be decrypted are handed out as they
// are stored, together with an error in [KV.Err] or [Event.Err]: one of them must not hold up all others.
type seals struct {
	sealer Sealer // nil: values are stored as they are

	mu     sync.Mutex
	unread map[string]struct{} // keys of values that could not be decrypted
}

func (s *seals) seal(ctx context.Context, key string, value []byte) ([]byte, error) {
	if s.sealer == nil {
		return value, nil
	}
	stored, err := s.sealer.Seal(ctx, key, value)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return stored, nil
}

// open returns the value of what is stored at key, or stored itself and the reason why it cannot be read.
func (s *seals) open(ctx context.Context, key string, stored []byte) (value []byte, stale bool, err error) {
	if s.sealer == nil {
		if bytes.HasPrefix(stored, sealedPrefix) {
			return stored, false, fmt.Errorf("%w: no encryption is configured", ErrSealed)
		}
		return stored, false, nil
	}
	if value, stale, err = s.sealer.Open(ctx, key, stored); err != nil {
		if ctx.Err() == nil {
			s.remember(key)
		}
		return stored, false, fmt.Errorf("%w: %w", ErrSealed, err)
	}
	return value, stale, nil
}

func (s *seals) openKV(ctx context.Context, kv KV) KV {
	kv.Value, kv.Stale, kv.Err = s.open(ctx, kv.Key, kv.Value)
	return kv
}

func (s *seals) remember(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unread == nil {
		s.unread = map[string]struct{}{}
	}
	if len(s.unread) < maxUnread {
		s.unread[key] = struct{}{}
	}
}

// takeUnread returns the keys remembered so far and forgets them.
func (s *seals) takeUnread() map[string]struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := s.unread
	s.unread = nil
	return keys
}

// Reseal writes anew, with the current key, the values that this store has come across without being able to decrypt
// them, and that it can decrypt now; so everybody who watches gets to see them. It is to be called when the Sealer has
// got other keys. It returns how many those were.
func (s *Store) Reseal(ctx context.Context) (n int, err error) {
	var errs []error
	for key := range s.seals.takeUnread() {
		kv, err := s.Get(ctx, key)
		switch {
		case errors.Is(err, ErrNotFound), err == nil && kv.Err != nil:
			continue // gone, or remembered again by Get
		case err == nil:
			err = s.rewrite(ctx, kv)
		}
		switch {
		case errors.Is(err, ErrConflict):
		case err != nil:
			s.seals.remember(key)
			errs = append(errs, err)
		default:
			n++
		}
	}
	return n, errors.Join(errs...)
}

// rewrite puts the same value at its key again, if nobody has changed it. A lease stays.
func (s *Store) rewrite(ctx context.Context, kv KV) (err error) {
	defer s.metrics.observe("update", kv.Key, time.Now(), &err)
	stored, err := s.seals.seal(ctx, kv.Key, kv.Value)
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", kv.Key, err)
	}
	put := &pb.PutRequest{Key: []byte(kv.Key), Value: stored, IgnoreLease: true}
	then := &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: put}}
	resp, err := s.engine.txn(ctx, compareAndSwap(put.Key, kv.ModRev, then))
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", kv.Key, writeError(err))
	}
	if !resp.Succeeded {
		return s.conflict(ctx, kv.Key, current(resp))
	}
	return nil
}
