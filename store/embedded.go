package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/raft/v3/raftpb"
)

// Embedded is an etcd server in this process: a cluster of one member.
type Embedded struct {
	etcd   *embed.Etcd
	client *clientv3.Client
	disk   *disk

	done      chan struct{} // closed when etcd has ended, by Close or by itself
	closeOnce sync.Once

	// gate is held for reading by everyone inside etcd's own code: its database must not be closed under them.
	gate sync.RWMutex

	mu  sync.Mutex
	err error // why it ended by itself
}

// StartEmbedded starts etcd and waits until it serves, or ctx ends. What goes wrong is one sentence, made for the
// operator: the port in use, no permission, damaged data, a full disk, another process on the same data.
func StartEmbedded(ctx context.Context, cfg EmbeddedConfig) (*Embedded, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := prepareDataDir(cfg.DataDir); err != nil {
		return nil, err
	}
	if err := (&reserve{dir: cfg.DataDir}).prepare(); err != nil {
		return nil, startError(cfg, err)
	}
	if err := checkDatabase(cfg.DataDir); err != nil {
		return nil, startError(cfg, err)
	}
	smallSegments()
	e := &Embedded{done: make(chan struct{})}
	c, err := cfg.etcd(zapLogger(cfg.Logger, e.done, func(entry fatalEntry) { e.fail(startError(cfg, entry)) }))
	if err != nil {
		return nil, err
	}
	if e.etcd, err = startEtcd(ctx, c, e); err != nil {
		return nil, startError(cfg, err)
	}
	e.client = v3client.New(e.etcd.Server)
	if err := e.waitReady(ctx); err != nil {
		e.Close()
		return nil, startError(cfg, err)
	}
	e.disk = newDisk(cfg.DataDir, e.etcd.Server, cfg.Logger, e.done)
	e.disk.look.once(ctx)
	go e.supervise()
	go e.watchDisk()
	return e, nil
}

// watchDisk looks at the disk until etcd ends, regularly and when a write asks for it.
func (e *Embedded) watchDisk() {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-e.done:
			return
		case <-ticker.C:
		case <-e.disk.ask:
			time.Sleep(lookPause)
		}
		if e.enter() != nil {
			return
		}
		e.disk.look.once(context.Background()) // etcd ends what it is asked in time
		e.leave()
	}
}

// startEtcd calls embed.StartEtcd on a goroutine of its own: over data it cannot read, etcd ends a goroutine, waits
// for ever for one that it ended, or panics. Then e has failed, and the goroutine is given up.
func startEtcd(ctx context.Context, c *embed.Config, e *Embedded) (*embed.Etcd, error) {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	started := make(chan result)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				e.fail(corruptError{fmt.Errorf("%v", p)})
			}
		}()
		etcd, err := embed.StartEtcd(c)
		select {
		case started <- result{etcd, err}:
		case <-ctx.Done(): // nobody waits any more
			if err == nil {
				etcd.Close()
			}
		}
	}()
	select {
	case r := <-started:
		return r.etcd, r.err
	case <-e.done:
		return nil, e.Err()
	case <-ctx.Done():
		return nil, fmt.Errorf("etcd did not start in time: %w", ctx.Err())
	}
}

// waitReady waits until etcd leads and serves.
func (e *Embedded) waitReady(ctx context.Context) error {
	s := e.etcd.Server
	replayed := false // at the last look
	for {
		select {
		case <-s.ReadyNotify():
			return nil
		case err := <-e.etcd.Err():
			return err
		case <-e.done:
			return e.Err()
		case <-s.StopNotify():
			return errors.New("etcd stopped while starting")
		case <-ctx.Done():
			return fmt.Errorf("etcd was not ready in time: %w", ctx.Err())
		case <-time.After(2 * time.Millisecond):
			now := s.AppliedIndex() >= s.CommittedIndex()
			if now && replayed {
				e.campaign(ctx)
			}
			replayed = now
		}
	}
}

// campaign makes a single member ask for the leadership now instead of after an election timeout: it is what raft
// does with the message by which a leader hands over. Raft ignores it while configuration changes wait to be
// applied, so it is repeated until etcd leads.
func (e *Embedded) campaign(ctx context.Context) {
	s := e.etcd.Server
	if s.Lead() != 0 || !sole(s) {
		return
	}
	id := uint64(s.MemberID())
	// An error means that raft is stopping, which the caller learns otherwise.
	_ = s.Process(ctx, &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: &id, To: &id})
}

// supervise ends Done when etcd ends by itself.
func (e *Embedded) supervise() {
	select {
	case err := <-e.etcd.Err():
		if err == nil {
			err = errors.New("it stopped serving")
		}
		e.fail(fmt.Errorf("embedded etcd ended: %w", err))
	case <-e.etcd.Server.StopNotify():
		e.fail(errors.New("embedded etcd ended"))
	case <-e.done:
	}
}

// fail notes why etcd ended by itself; the first reason counts.
func (e *Embedded) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.done:
	default:
		e.err = err
		close(e.done)
	}
}

// enter is called before each call into the server; leave after it, unless enter failed.
func (e *Embedded) enter() error {
	e.gate.RLock()
	select {
	case <-e.done:
		e.gate.RUnlock()
		if err := e.Err(); err != nil {
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		return fmt.Errorf("%w: the embedded etcd is closed", ErrUnavailable)
	default:
		return nil
	}
}

func (e *Embedded) leave() { e.gate.RUnlock() }

// Done is closed when etcd has ended, by itself or by Close.
func (e *Embedded) Done() <-chan struct{} { return e.done }

// Err says in one sentence why etcd ended by itself, nil while it runs and after Close.
func (e *Embedded) Err() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}

// Client is a clientv3 client without a network, for tools. The store does not use it. It ends with Close.
func (e *Embedded) Client() *clientv3.Client { return e.client }

// Endpoints are the client URLs with their true ports; none when it does not listen.
func (e *Embedded) Endpoints() []string {
	var urls []string
	for _, l := range e.etcd.Clients {
		urls = append(urls, "https://"+l.Addr().String())
	}
	return urls
}

// Close ends etcd and waits until its data is closed. Stores on it are of no use afterwards.
func (e *Embedded) Close() {
	e.closeOnce.Do(func() {
		failed := e.Err() != nil
		e.mu.Lock()
		select {
		case <-e.done:
		default:
			close(e.done)
		}
		e.mu.Unlock()
		if failed {
			// One of etcd's goroutines has ended in the middle of something and may hold its locks.
			for _, l := range e.etcd.Clients {
				l.Close()
			}
			return
		}
		e.gate.Lock() // wait for those inside; nobody comes any more
		defer e.gate.Unlock()
		if e.client != nil {
			e.client.Close()
		}
		e.etcd.Close()
	})
}
