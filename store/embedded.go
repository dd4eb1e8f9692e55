package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
)

// EmbeddedConfig says where an etcd in this process keeps its data and where it listens.
type EmbeddedConfig struct {
	DataDir string // made when it does not exist, mode 0700

	// ClientAddr and PeerAddr are host:port; port 0 takes any free one, "" does not listen. The process itself needs
	// neither: they are for etcdctl, backups and other API servers.
	ClientAddr, PeerAddr string
	// Client and Peer are the certificates of the two; both ends must show one signed by the CA.
	Client, Peer CertFiles

	// QuotaBytes is the size of the database at which etcd refuses writes; 0 is 8 GiB.
	QuotaBytes int64
	// UnsafeNoFsync loses acknowledged writes when the machine goes down. For tests.
	UnsafeNoFsync bool

	Logger *slog.Logger // etcd's warnings and errors; nil discards
}

// CertFiles are PEM files. The certificate is used to serve and, between peers, to connect.
type CertFiles struct{ CAFile, CertFile, KeyFile string }

// Embedded is an etcd server in this process: a cluster of one member.
type Embedded struct {
	etcd   *embed.Etcd
	client *clientv3.Client

	done      chan struct{} // closed when etcd has ended, by Close or by itself
	closeOnce sync.Once

	// gate is held for reading by everyone inside etcd's own code: its database must not be closed under them.
	gate sync.RWMutex

	mu  sync.Mutex
	err error // why it ended by itself
}

const (
	// One member sends no heartbeats and waits for nobody, so ticks only cost wake-ups. How soon it leads after a
	// start does not depend on them: see campaign. They also make etcd's request timeout, 5 s + 2 elections.
	tickMs     = 500
	electionMs = 5 * tickMs // the least etcd accepts

	defaultQuotaBytes = 8 << 30

	// Entries of the log that a start replays, and that memory keeps. The second is for followers, which we do not
	// have; but it must stay well above the first, or raft looks for entries that are gone when it is made to
	// campaign while it replays, and panics.
	snapshotCount  = 1000
	catchUpEntries = 2500

	keepFiles        = 2               // log and snapshot files kept besides those in use
	progressInterval = 5 * time.Second // of idle watches from outside, as kubeadm sets it
)

// smallSegments makes etcd's log files 16 instead of 64 MB: a start reads all that are left, twice.
var smallSegments = sync.OnceFunc(func() { wal.SegmentSizeBytes = 16 << 20 })

// StartEmbedded starts etcd and waits until it serves, or ctx ends. What goes wrong is one sentence, made for the
// operator: the port in use, no permission, damaged data, a full disk, another process on the same data.
func StartEmbedded(ctx context.Context, cfg EmbeddedConfig) (*Embedded, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := prepareDataDir(cfg.DataDir); err != nil {
		return nil, err
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
	go e.supervise()
	return e, nil
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
func (e *Embedded) Endpoints() []string { return urls("https", listenAddrs(e.etcd)) }

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

// etcd returns embed's configuration. NewConfig's defaults are for a member of a cluster over a network.
func (cfg EmbeddedConfig) etcd(log *zap.Logger) (*embed.Config, error) {
	c := embed.NewConfig()
	c.Name = "vigil"
	c.Dir = cfg.DataDir
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	c.TickMs, c.ElectionMs = tickMs, electionMs
	c.SnapshotCount, c.SnapshotCatchUpEntries = snapshotCount, catchUpEntries
	c.QuotaBackendBytes = cfg.QuotaBytes
	if c.QuotaBackendBytes == 0 {
		c.QuotaBackendBytes = defaultQuotaBytes
	}
	c.BackendFreelistType = "map" // bbolt's array is slow once the database has many free pages
	c.AutoCompactionRetention = "0"
	c.WatchProgressNotifyInterval = progressInterval
	c.MaxSnapFiles, c.MaxWalFiles = keepFiles, keepFiles
	c.UnsafeNoFsync = cfg.UnsafeNoFsync
	c.EnableGRPCGateway = false

	var err error
	if c.ListenClientUrls, err = listenURLs(cfg.ClientAddr); err != nil {
		return nil, fmt.Errorf("etcd client address: %w", err)
	}
	if c.ListenPeerUrls, err = listenURLs(cfg.PeerAddr); err != nil {
		return nil, fmt.Errorf("etcd peer address: %w", err)
	}
	// What it tells others about itself. Nobody asks, but etcd wants something.
	c.AdvertiseClientUrls, c.AdvertisePeerUrls = c.ListenClientUrls, c.ListenPeerUrls
	if c.AdvertiseClientUrls == nil {
		c.AdvertiseClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:2379"}}
	}
	if c.AdvertisePeerUrls == nil {
		c.AdvertisePeerUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:2380"}}
	}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	if c.ClientTLSInfo, err = cfg.Client.etcd(cfg.ClientAddr); err != nil {
		return nil, fmt.Errorf("etcd client certificates: %w", err)
	}
	if c.PeerTLSInfo, err = cfg.Peer.etcd(cfg.PeerAddr); err != nil {
		return nil, fmt.Errorf("etcd peer certificates: %w", err)
	}
	return c, nil
}

// etcd returns the files for etcd after a look into them; it would itself only fail at the first connection.
func (f CertFiles) etcd(addr string) (transport.TLSInfo, error) {
	if addr == "" {
		return transport.TLSInfo{}, nil
	}
	if f.CAFile == "" || f.CertFile == "" || f.KeyFile == "" {
		return transport.TLSInfo{}, errors.New("a certificate, its key and a CA are needed to listen")
	}
	info := transport.TLSInfo{CertFile: f.CertFile, KeyFile: f.KeyFile, TrustedCAFile: f.CAFile, ClientCertAuth: true}
	if _, err := info.ServerConfig(); err != nil {
		return transport.TLSInfo{}, fmt.Errorf("%s, %s, %s: %w", f.CertFile, f.KeyFile, f.CAFile, err)
	}
	return info, nil
}

func listenURLs(addr string) ([]url.URL, error) {
	if addr == "" {
		return nil, nil
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, err
	}
	return []url.URL{{Scheme: "https", Host: addr}}, nil
}

func listenAddrs(e *embed.Etcd) []net.Addr {
	var addrs []net.Addr
	for _, l := range e.Clients {
		addrs = append(addrs, l.Addr())
	}
	return addrs
}

func urls(scheme string, addrs []net.Addr) []string {
	var s []string
	for _, a := range addrs {
		s = append(s, scheme+"://"+a.String())
	}
	return s
}

// prepareDataDir makes the directory, and finds out what etcd would only say in a stack of log lines.
func prepareDataDir(dir string) error {
	if dir == "" {
		return errors.New("etcd data directory is not set")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make etcd data directory: %w", err)
	}
	probe, err := os.CreateTemp(dir, ".probe")
	if err != nil {
		return fmt.Errorf("cannot write to etcd data directory: %w", err)
	}
	probe.Close()
	if err := os.Remove(probe.Name()); err != nil {
		return fmt.Errorf("cannot write to etcd data directory: %w", err)
	}
	return checkUnlocked(dir)
}
