package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"vigil/store"
	"vigil/store/storetest"
)

const podBytes = 3300 // of a typical stored pod

// engines are the two ways to reach etcd. Both sync to disk: without, a write would be too cheap to compare.
var engines = []struct {
	name string
	open func(testing.TB) storetest.Target
}{
	{"embedded", func(t testing.TB) storetest.Target {
		e := startSynced(t, store.EmbeddedConfig{})
		return storetest.Target{Store: storetest.Open(t, store.Config{Embedded: e}), Etcd: e}
	}},
	{"remote", func(t testing.TB) storetest.Target {
		certs := storetest.Certs(t)
		e := startSynced(t, store.EmbeddedConfig{ClientAddr: "127.0.0.1:0", Client: certs})
		cfg := store.Config{Endpoints: e.Endpoints(), CAFile: certs.CAFile, CertFile: certs.CertFile, KeyFile: certs.KeyFile}
		return storetest.Target{Store: storetest.Open(t, cfg), Etcd: e}
	}},
}

func startSynced(t testing.TB, cfg store.EmbeddedConfig) *store.Embedded {
	t.Helper()
	cfg.DataDir = filepath.Join(t.TempDir(), "etcd")
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := store.StartEmbedded(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func BenchmarkCreate(b *testing.B) {
	for _, workers := range []int{1, 16} {
		for _, engine := range engines {
			b.Run(fmt.Sprintf("%s/workers=%d", engine.name, workers), func(b *testing.B) {
				s := engine.open(b).Store
				value := storetest.Value(1, podBytes)
				var n atomic.Int64
				b.ReportAllocs()
				parallel(b, workers, func(ctx context.Context) error {
					_, err := s.Create(ctx, fmt.Sprintf("/registry/pods/default/%08d", n.Add(1)), value, 0)
					return err
				})
			})
		}
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, engine := range engines {
		b.Run(engine.name+"/workers=16", func(b *testing.B) {
			s := engine.open(b).Store
			value := storetest.Value(1, podBytes)
			var worker atomic.Int64
			b.ReportAllocs()
			parallelEach(b, 16, func(ctx context.Context) func() error {
				key := fmt.Sprintf("/registry/pods/default/%d", worker.Add(1))
				rev := int64(0)
				return func() (err error) {
					rev, err = s.Update(ctx, key, value, rev, 0)
					return err
				}
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	for _, workers := range []int{1, 16} {
		for _, engine := range engines {
			b.Run(fmt.Sprintf("%s/workers=%d", engine.name, workers), func(b *testing.B) {
				target := engine.open(b)
				storetest.Fill(b, target.Etcd, "/registry/pods/default/", 10000, podBytes)
				var n atomic.Int64
				b.ReportAllocs()
				parallel(b, workers, func(ctx context.Context) error {
					_, err := target.Store.Get(ctx, fmt.Sprintf("/registry/pods/default/%06d", n.Add(7919)%10000))
					return err
				})
			})
		}
	}
}

func BenchmarkRevision(b *testing.B) {
	for _, workers := range []int{1, 64} {
		for _, engine := range engines {
			b.Run(fmt.Sprintf("%s/workers=%d", engine.name, workers), func(b *testing.B) {
				s := engine.open(b).Store
				b.ReportAllocs()
				parallel(b, workers, func(ctx context.Context) error {
					_, err := s.Revision(ctx)
					return err
				})
			})
		}
	}
}

func BenchmarkList50k(b *testing.B) {
	const n = 50000
	for _, engine := range engines {
		target := engine.open(b)
		rev := storetest.Fill(b, target.Etcd, "/registry/pods/default/", n, podBytes)
		b.Run(engine.name+"/LoadAll", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(n * podBytes)
			defer reportCPU(b)()
			for b.Loop() {
				var got atomic.Int64
				_, err := target.Store.LoadAll(b.Context(), "/registry/", rev, func(kvs []store.KV) error {
					got.Add(int64(len(kvs)))
					return nil
				})
				if err != nil || got.Load() != n {
					b.Fatalf("%d values, %v", got.Load(), err)
				}
			}
		})
		b.Run(engine.name+"/List", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(n * podBytes)
			defer reportCPU(b)()
			for b.Loop() {
				res, err := target.Store.List(b.Context(), "/registry/pods/", store.ListOptions{})
				if err != nil || len(res.KVs) != n {
					b.Fatalf("%d values, %v", len(res.KVs), err)
				}
			}
		})
	}
}

// BenchmarkFeed is the time of one event when history is replayed, and when 16 writers keep a feed busy.
func BenchmarkFeed(b *testing.B) {
	for _, engine := range engines {
		b.Run(engine.name+"/replay", func(b *testing.B) {
			target := engine.open(b)
			const n = 20000
			last := storetest.Fill(b, target.Etcd, "/registry/pods/default/", n, podBytes)
			b.ReportAllocs()
			b.SetBytes(n * podBytes)
			for b.Loop() {
				ctx, cancel := context.WithCancel(b.Context())
				events := 0
				target.Store.Feed(ctx, 1, func(batch store.Batch) error {
					if events += len(batch.Events); batch.Rev >= last {
						cancel()
					}
					return nil
				})
				if events != n {
					b.Fatalf("%d events, want %d", events, n)
				}
			}
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "events/s")
		})
		b.Run(engine.name+"/live", func(b *testing.B) {
			s := engine.open(b).Store
			ctx, cancel := context.WithCancel(b.Context())
			var last, batches atomic.Int64
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.Feed(ctx, 1, func(batch store.Batch) error {
					last.Store(batch.Rev)
					batches.Add(1)
					return nil
				})
			}()
			value := storetest.Value(1, podBytes)
			var n atomic.Int64
			parallel(b, 16, func(ctx context.Context) error {
				_, err := s.Create(ctx, fmt.Sprintf("/registry/pods/default/%08d", n.Add(1)), value, 0)
				return err
			})
			rev, err := s.Revision(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			start := time.Now()
			for last.Load() < rev {
				time.Sleep(time.Millisecond)
			}
			b.ReportMetric(float64(time.Since(start).Milliseconds()), "lag-ms")
			b.ReportMetric(float64(b.N)/float64(batches.Load()), "events/batch")
			cancel()
			<-done
		})
	}
}

// BenchmarkFeedBehind is a feed that starts 5,000 revisions back, as that of a server that starts does.
func BenchmarkFeedBehind(b *testing.B) {
	const revisions = 5000
	for _, engine := range engines {
		b.Run(engine.name, func(b *testing.B) {
			target := engine.open(b)
			value := storetest.Value(1, podBytes)
			var n atomic.Int64
			g, ctx := errgroup.WithContext(b.Context())
			for range 64 {
				g.Go(func() error {
					for i := n.Add(1); i <= revisions; i = n.Add(1) {
						if _, err := target.Store.Create(ctx, fmt.Sprintf("/registry/pods/default/%08d", i), value, 0); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
			newest, err := target.Store.Revision(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			done := errors.New("done")
			for b.Loop() {
				events := 0
				err := target.Store.Feed(b.Context(), newest-revisions, func(batch store.Batch) error {
					if events += len(batch.Events); batch.Rev >= newest {
						return done
					}
					return nil
				})
				if err != done || events != revisions {
					b.Fatal(events, err)
				}
			}
		})
	}
}

// BenchmarkFeedLatency is the time from the start of a write to the event in fn.
func BenchmarkFeedLatency(b *testing.B) {
	for _, engine := range engines {
		b.Run(engine.name, func(b *testing.B) {
			s := engine.open(b).Store
			ctx, cancel := context.WithCancel(b.Context())
			seen := make(chan int64, 1000)
			done := make(chan struct{})
			go func() {
				defer close(done)
				s.Feed(ctx, 1, func(batch store.Batch) error {
					for _, e := range batch.Events {
						seen <- e.ModRev
					}
					return nil
				})
			}()
			value := storetest.Value(1, podBytes)
			n := 0
			for b.Loop() {
				n++
				rev, err := s.Create(ctx, fmt.Sprintf("/registry/pods/default/%08d", n), value, 0)
				if err != nil {
					b.Fatal(err)
				}
				for r := range seen {
					if r == rev {
						break
					}
				}
			}
			cancel()
			<-done
		})
	}
}

// parallel runs b.N calls of fn by workers goroutines, and reports calls per second.
func parallel(b *testing.B, workers int, fn func(context.Context) error) {
	parallelEach(b, workers, func(ctx context.Context) func() error {
		return func() error { return fn(ctx) }
	})
}

func parallelEach(b *testing.B, workers int, worker func(context.Context) func() error) {
	report := reportCPU(b)
	b.ResetTimer()
	todo := atomic.Int64{}
	todo.Store(int64(b.N))
	errs := make(chan error, workers)
	for range workers {
		go func() {
			fn := worker(b.Context())
			for todo.Add(-1) >= 0 {
				if err := fn(); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range workers {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	report()
}

// reportCPU returns a function that reports the processor time of the whole process, both sides of a connection, since
// now for each operation: what stays comparable on a busy machine.
func reportCPU(b *testing.B) func() {
	before := cpuTime(b)
	return func() { b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op") }
}
