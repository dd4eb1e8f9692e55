package store

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
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
var smallSegments = sync.OnceFunc(func() { wal.SegmentSizeBytes = segmentBytes })

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
