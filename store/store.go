// Package store keeps encoded objects in etcd, embedded in the process or remote, behind one concrete type.
//
// It knows keys, values and revisions, nothing about kinds. Nothing above it talks to etcd. Keys and requests are
// those of kube-apiserver, so both can work on the same etcd.
//
// What it promises, embedded or remote:
//   - A write that returned without error is on disk, at the revision it returned, and is seen by every Get, List
//     (at revision 0) and Revision that starts afterwards. One that returned [ErrUncertain] may have happened or not.
//   - A write is a single compare-and-swap; what lost the compare comes back in a [ConflictError].
//   - [Store.Feed] delivers every change under the prefix once, in revision order, never a part of a transaction,
//     across broken connections and leader changes, or ends with [ErrCompacted].
//
// It does not promise that a value handed out is a private copy: values are shared, so never change one.
//
// Start reading at [Open] and [StartEmbedded]; engine.go says what etcd is asked for, local.go and remote.go how.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config says which etcd to use. Either Embedded or Endpoints is needed.
type Config struct {
	// Embedded is used without a network. It belongs to the caller: close the store first, then it.
	Embedded *Embedded

	// Endpoints of a remote cluster: "https://host:port", or "http://host:port" where plain text is wanted.
	Endpoints []string
	// CAFile verifies the servers; CertFile and KeyFile are shown to them. PEM, read again for each connection.
	CAFile, CertFile, KeyFile string

	// Prefix of all keys, "/registry/" when empty. Feed watches it.
	Prefix string
	// CompactInterval is how long Run waits between compactions, so changes older than one to two intervals are
	// gone; 0 never compacts.
	CompactInterval time.Duration

	// Sealer encrypts values on their way to etcd, and decrypts them; nil stores them as they are.
	Sealer Sealer

	Logger     *slog.Logger          // nil discards
	Registerer prometheus.Registerer // nil means no metrics
}

// Store is a connection to etcd. All methods may be called from any goroutine.
type Store struct {
	engine  engine
	prefix  string
	compact time.Duration
	log     *slog.Logger
	metrics *metrics
	leases  leases
	seals   seals

	ctx    context.Context // ends with Close; bounds what callers share
	cancel context.CancelFunc
	wg     sync.WaitGroup // round trips that callers share

	reads sharedRead // of Revision

	feedMu sync.Mutex
	feeds  map[*feed]struct{}
}

// Open prepares a store. It reads the certificate files but does not wait for etcd: Health says whether it answers.
func Open(_ context.Context, cfg Config) (*Store, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "/registry/"
	}
	if !strings.HasSuffix(cfg.Prefix, "/") {
		cfg.Prefix += "/"
	}
	var e engine
	switch {
	case cfg.Embedded != nil && len(cfg.Endpoints) > 0:
		return nil, errors.New("open store: both an embedded etcd and endpoints are given")
	case cfg.Embedded != nil:
		e = newLocal(cfg.Embedded)
	case len(cfg.Endpoints) > 0:
		r, err := dial(cfg)
		if err != nil {
			return nil, fmt.Errorf("open store at %s: %w", strings.Join(cfg.Endpoints, ","), err)
		}
		e = r
	default:
		return nil, errors.New("open store: neither an embedded etcd nor endpoints are given")
	}
	m, err := newMetrics(cfg.Registerer, cfg.Prefix, func() bool { return e.full() != "" })
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open store: register metrics: %w", err), e.close())
	}
	s := &Store{
		engine:  e,
		prefix:  cfg.Prefix,
		compact: cfg.CompactInterval,
		log:     cfg.Logger,
		metrics: m,
		seals:   seals{sealer: cfg.Sealer},
		feeds:   make(map[*feed]struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Close ends what is shared between callers and the connection. Feeds end with their own contexts; end them first.
func (s *Store) Close() error {
	s.cancel()
	s.wg.Wait()
	return s.engine.close()
}

// Prefix returns the prefix of all keys, with a slash at the end.
func (s *Store) Prefix() string { return s.prefix }

// Health asks etcd for an answer that needs a quorum. It returns ErrUnavailable or the context's error otherwise.
func (s *Store) Health(ctx context.Context) error {
	return s.engine.health(ctx)
}
