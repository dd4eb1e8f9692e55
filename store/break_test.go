package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"vigil/internal/eventually"
	"vigil/internal/porttest"
	"vigil/store"
	"vigil/store/storetest"
)

// proxy passes connections on to an etcd until they are cut.
type proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	mute  bool // what etcd answers goes nowhere
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(server, client, func() bool { return false }) })
		p.wg.Go(func() { p.pass(client, server, p.muted) })
	}
}

func (p *proxy) pass(to, from net.Conn, muted func() bool) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if muted() {
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) muted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mute
}

func (p *proxy) setMute(mute bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mute = mute
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

// throughProxy is a store that reaches target's etcd by way of a proxy.
func throughProxy(t testing.TB, target storetest.Target) (*store.Store, *proxy) {
	t.Helper()
	cfg := target.Config
	p := newProxy(t, cfg.Endpoints[0][len("https://"):])
	cfg.Endpoints = []string{"https://" + p.listener.Addr().String()}
	return storetest.Open(t, cfg), p
}

// TestBreak_Feed cuts a feed's connection again and again in the middle of what it delivers: values that etcd sends in
// fragments. The recorder checks order; here nothing may be missing.
func TestBreak_Feed(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	target := storetest.NewRemoteTarget(t)
	s, p := throughProxy(t, target)
	const n, size = 600, 40 << 10
	var last int64
	write := func(from, to int) {
		for i := from; i < to; i++ {
			rev, err := target.Store.Create(t.Context(), fmt.Sprintf("/registry/secrets/%d", i), storetest.Value(i, size), 0)
			if err != nil {
				t.Fatal(err)
			}
			last = rev
		}
	}
	write(0, n/2) // to catch up with
	feed := storetest.Record(t.Context(), t, s, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cuts := 0
	var wg sync.WaitGroup
	wg.Go(func() {
		next := int64(2)
		for ctx.Err() == nil {
			if feed.Rev() >= next {
				p.cut()
				cuts++
				next = feed.Rev() + 1 + rnd.Int64N(80)
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
	write(n/2, n)
	events := feed.WaitFor(t, last)
	cancel()
	wg.Wait()
	for i, e := range events {
		if want := fmt.Sprintf("/registry/secrets/%d", i); e.Key != want || string(e.Value) != string(storetest.Value(i, size)) {
			t.Fatalf("event %d is of %s, want %s", i, e.Key, want)
		}
	}
	if len(events) != n || cuts == 0 {
		t.Errorf("%d events, want %d; %d cuts, want at least one", len(events), n, cuts)
	}
	t.Logf("%d cuts", cuts)
}

// TestBreak_Compacted lets history disappear while the feed cannot reach etcd.
func TestBreak_Compacted(t *testing.T) {
	target := storetest.NewRemoteTarget(t)
	s, p := throughProxy(t, target)
	feed := storetest.Record(t.Context(), t, s, 1)
	first, err := target.Store.Create(t.Context(), "/registry/pods/1", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	feed.WaitFor(t, first)
	p.setMute(true)
	var rev int64
	for i := range 3 {
		if rev, err = target.Store.Create(t.Context(), fmt.Sprintf("/registry/pods/1%d", i), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := target.Etcd.Client().Compact(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	p.cut()
	p.setMute(false)
	if err := feed.Wait(t); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("feed ends with %v, want ErrCompacted", err)
	}
}

// TestBreak_Progress asks for progress while the feed is broken: it must come when the feed is back.
func TestBreak_Progress(t *testing.T) {
	target := storetest.NewRemoteTarget(t)
	s, p := throughProxy(t, target)
	feed := storetest.Record(t.Context(), t, s, 1)
	rev, err := target.Store.Create(t.Context(), "/registry/pods/1", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	feed.WaitFor(t, rev)
	p.setMute(true)
	if _, err := target.Etcd.Client().Put(t.Context(), "/other", "v"); err != nil {
		t.Fatal(err)
	}
	if err := s.RequestProgress(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.cut()
	p.setMute(false)
	feed.WaitFor(t, rev+1)
}

// TestBreak_UncertainWrite loses etcd's answer to a write: the write happened, the store must not say that it did
// not, nor that it did.
func TestBreak_UncertainWrite(t *testing.T) {
	target := storetest.NewRemoteTarget(t)
	s, p := throughProxy(t, target)
	if err := s.Health(t.Context()); err != nil { // connected
		t.Fatal(err)
	}
	p.setMute(true)
	result := make(chan error, 1)
	go func() {
		_, err := s.Create(t.Context(), "/registry/pods/lost", []byte("v"), 0)
		result <- err
	}()
	for { // until etcd has it
		if _, err := target.Store.Get(t.Context(), "/registry/pods/lost"); err == nil {
			break
		} else if !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
	}
	p.cut()
	if err := <-result; !errors.Is(err, store.ErrUncertain) || !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("create whose answer was lost: %v, want ErrUncertain", err)
	}
	p.setMute(false)
	if _, err := s.Create(t.Context(), "/registry/pods/lost", []byte("v"), 0); !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrUncertain) {
		t.Errorf("second create: %v", err)
	}

	p.setMute(true)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Create(ctx, "/registry/pods/late", []byte("v"), 0); !errors.Is(err, store.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("create whose context ended: %v, want ErrUncertain and DeadlineExceeded", err)
	}
}

// TestBreak_Unreachable wants an error soon when nobody listens.
func TestBreak_Unreachable(t *testing.T) {
	certs := storetest.Certs(t)
	s := storetest.Open(t, store.Config{Endpoints: []string{fmt.Sprintf("https://127.0.0.1:%d", porttest.Free(t))}, CAFile: certs.CAFile, CertFile: certs.CertFile, KeyFile: certs.KeyFile})
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	if err := s.Health(ctx); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("health: %v, want ErrUnavailable", err)
	}
	if _, err := s.Create(ctx, "/registry/pods/1", nil, 0); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("create: %v, want ErrUnavailable", err)
	}
}

// TestBreak_Restart stops etcd under a remote store and its feed, and starts it again on the same data and address.
func TestBreak_Restart(t *testing.T) {
	certs := storetest.Certs(t)
	etcd := store.EmbeddedConfig{DataDir: filepath.Join(t.TempDir(), "etcd"), ClientAddr: fmt.Sprintf("127.0.0.1:%d", porttest.Free(t)), Client: certs}
	e := storetest.NewEmbedded(t, etcd)
	s := storetest.Open(t, store.Config{Endpoints: e.Endpoints(), CAFile: certs.CAFile, CertFile: certs.CertFile, KeyFile: certs.KeyFile})
	feed := storetest.Record(t.Context(), t, s, 1)
	total := 0
	for round := range 3 {
		var last int64
		for i := range 20 {
			last = createUntilDone(t, s, fmt.Sprintf("/registry/pods/%d-%d", round, i))
			total++
		}
		if events := feed.WaitFor(t, last); len(events) != total {
			t.Fatalf("round %d: %d events, want %d", round, len(events), total)
		}
		e.Close()
		e = storetest.NewEmbedded(t, etcd)
	}
}

// createUntilDone creates key however often that takes, and returns its revision.
func createUntilDone(t testing.TB, s *store.Store, key string) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for {
		rev, err := s.Create(ctx, key, []byte("v"), 0)
		if errors.Is(err, store.ErrExists) { // by an attempt that was uncertain
			kv, err := s.Get(ctx, key)
			if err == nil {
				return kv.ModRev
			}
			continue
		}
		if err == nil {
			return rev
		}
		if !errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}
