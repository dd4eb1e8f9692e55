package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
)

// remote is an etcd cluster over gRPC. Connections, balancing over the endpoints and retries of reads are clientv3's;
// requests and watch streams are made by hand, because its watcher buffers without a bound.
type remote struct {
	client  *clientv3.Client
	kv      pb.KVClient // repeats reads that a broken connection ended
	once    pb.KVClient // repeats nothing
	lease   pb.LeaseClient
	watcher pb.WatchClient
	opts    []grpc.CallOption

	noSpace atomic.Bool // etcd has refused a write for lack of space
}

// Keep-alive as kube-apiserver has it: a silent connection is given up after at most 40 s.
const (
	keepAliveTime    = 30 * time.Second
	keepAliveTimeout = 10 * time.Second
	dialTimeout      = 20 * time.Second
	maxSendBytes     = 2 << 20 // clientv3's; etcd refuses anything above 1.5 MiB by default
	maxRecvBytes     = 1<<31 - 1
)

func dial(cfg Config) (*remote, error) {
	if err := checkEndpoints(cfg.Endpoints); err != nil {
		return nil, err
	}
	c := clientv3.Config{
		Endpoints:            cfg.Endpoints,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		MaxCallSendMsgSize:   maxSendBytes,
		MaxCallRecvMsgSize:   maxRecvBytes,
		Logger:               zap.NewNop(), // it logs each failed request, and returns it too
		DialOptions: []grpc.DialOption{
			// A restarted etcd is to be found again soon: never more than 2 s between attempts.
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
				MinConnectTimeout: 5 * time.Second,
			}),
			grpc.WithInitialConnWindowSize(windowBytes),
			grpc.WithInitialWindowSize(windowBytes),
		},
	}
	if cfg.CAFile != "" || cfg.CertFile != "" || strings.HasPrefix(cfg.Endpoints[0], "https://") {
		info := transport.TLSInfo{CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, TrustedCAFile: cfg.CAFile}
		tlsConfig, err := info.ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("read certificates: %w", err)
		}
		c.TLS = tlsConfig
	}
	client, err := clientv3.New(c)
	if err != nil {
		return nil, err
	}
	return &remote{
		client:  client,
		kv:      clientv3.RetryKVClient(client),
		once:    pb.NewKVClient(client.ActiveConnection()),
		lease:   clientv3.RetryLeaseClient(client),
		watcher: pb.NewWatchClient(client.ActiveConnection()),
		opts: []grpc.CallOption{
			grpc.MaxCallSendMsgSize(maxSendBytes),
			grpc.MaxCallRecvMsgSize(maxRecvBytes),
		},
	}, nil
}

// windowBytes lets a stream run at the network's speed: HTTP/2's 64 KiB stall it once for every few values of a list.
const windowBytes = 4 << 20

// checkEndpoints refuses what gRPC would only fail on later, or worse, send in plain text.
func checkEndpoints(endpoints []string) error {
	scheme := ""
	for _, e := range endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("etcd endpoint %q is not https://host:port (or http:// where plain text is wanted)", e)
		}
		if scheme != "" && u.Scheme != scheme {
			return errors.New("etcd endpoints mix http and https")
		}
		scheme = u.Scheme
	}
	return nil
}

func (r *remote) cheapRevision() bool { return false }

func (r *remote) txn(ctx context.Context, t *pb.TxnRequest) (*pb.TxnResponse, error) {
	resp, err := r.kv.Txn(ctx, t, r.opts...)
	return resp, noteNoSpace(&r.noSpace, mapError(ctx, err))
}

func (r *remote) get(ctx context.Context, key []byte) (*mvccpb.KeyValue, error) {
	resp, err := r.kv.Range(ctx, &pb.RangeRequest{Key: key}, r.opts...)
	if err != nil || len(resp.Kvs) == 0 {
		return nil, mapError(ctx, err)
	}
	return resp.Kvs[0], nil
}

func (r *remote) scan(ctx context.Context, key, end []byte, o scanOptions) (scanResult, error) {
	request := &pb.RangeRequest{Key: key, RangeEnd: end, Revision: o.rev, Limit: o.limit, KeysOnly: o.keysOnly}
	var resp *pb.RangeResponse
	var release func()
	var err error
	if o.borrow {
		resp, release, err = r.borrowed(ctx, request)
	} else {
		resp, err = r.kv.Range(ctx, request, r.opts...)
	}
	if err != nil {
		return scanResult{}, mapError(ctx, err)
	}
	res := scanResult{kvs: resp.Kvs, rev: o.rev, more: resp.More, borrowed: release}
	if o.rev == 0 {
		res.rev = resp.Header.Revision
	}
	return res, nil
}

// revision counts one key: the cheapest read there is, whose header carries the revision it was made at.
func (r *remote) revision(ctx context.Context) (int64, error) {
	resp, err := r.kv.Range(ctx, &pb.RangeRequest{Key: []byte(compactKey), CountOnly: true}, r.opts...)
	if err != nil {
		return 0, mapError(ctx, err)
	}
	return resp.Header.Revision, nil
}

func (r *remote) health(ctx context.Context) error {
	_, err := r.once.Range(ctx, &pb.RangeRequest{Key: []byte("health")}, r.opts...)
	return mapError(ctx, err)
}

func (r *remote) compactTo(ctx context.Context, rev int64) error {
	_, err := r.kv.Compact(ctx, &pb.CompactionRequest{Revision: rev}, r.opts...)
	return mapError(ctx, err)
}

func (r *remote) grant(ctx context.Context, ttl int64) (int64, error) {
	resp, err := r.lease.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: ttl}, r.opts...)
	if err != nil {
		return 0, noteNoSpace(&r.noSpace, mapError(ctx, err))
	}
	return resp.ID, nil
}

func (r *remote) close() error { return r.client.Close() }
