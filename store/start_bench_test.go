package store_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"vigil/store"
	"vigil/store/storetest"
)

// BenchmarkStart is the time from StartEmbedded to the first answered write, with TLS on both ports.
func BenchmarkStart(b *testing.B) {
	certs := storetest.Certs(b)
	start := func(b *testing.B, dir string) *store.Embedded {
		e, err := store.StartEmbedded(b.Context(), store.EmbeddedConfig{
			DataDir:    dir,
			ClientAddr: "127.0.0.1:0", Client: certs,
			PeerAddr: "127.0.0.1:0", Peer: certs,
		})
		if err != nil {
			b.Fatal(err)
		}
		return e
	}
	write := func(b *testing.B, e *store.Embedded) {
		if _, err := e.Client().Put(b.Context(), "/registry/pods/a", "v"); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("fresh", func(b *testing.B) {
		dir := b.TempDir()
		for i := 0; b.Loop(); i++ {
			e := start(b, filepath.Join(dir, strconv.Itoa(i)))
			write(b, e)
			b.StopTimer()
			e.Close()
			b.StartTimer()
		}
	})
	for _, pods := range []int{0, 50000} {
		b.Run("existing/pods="+strconv.Itoa(pods), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "etcd")
			e := start(b, dir)
			storetest.Fill(b, e, "/registry/pods/default/", pods, podBytes)
			for range 1100 { // Fill's large transactions out of the log that is replayed
				write(b, e)
			}
			for b.Loop() {
				b.StopTimer()
				e.Close()
				b.StartTimer()
				e = start(b, dir)
				write(b, e)
			}
			e.Close()
		})
	}
}

// BenchmarkIdle is the process with an etcd, a store, and a feed, to which nothing happens: share of a core, memory.
func BenchmarkIdle(b *testing.B) {
	target := engines[0].open(b)
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		target.Store.Feed(ctx, 1, func(store.Batch) error { return nil })
	}()
	const watched = 5 * time.Second
	for b.Loop() {
		before := cpuTime(b)
		time.Sleep(watched)
		b.ReportMetric(100*float64(cpuTime(b)-before)/float64(watched), "%cpu")
	}
	b.ReportMetric(rssMB(b), "MB-RSS")
	cancel()
	<-done
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func rssMB(b *testing.B) float64 {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / (1 << 20)
}
