package warm

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// TestPool: work that comes one after the other is done by one goroutine, work that comes at once by as many as it needs, of which
// the Pool keeps some. Close ends them, and synctest.Test fails where one stays.
func TestPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pool{}
		for range 100 {
			done := false
			p.Go(func() { done = true })
			synctest.Wait()
			if n := ours(); !done || n != 1 {
				t.Fatalf("done %v, by %d goroutines; want 1", done, n)
			}
		}
		var mu sync.Mutex
		ran := 0
		release := make(chan struct{})
		for range 3 * keep {
			p.Go(func() {
				<-release
				mu.Lock()
				ran++
				mu.Unlock()
			})
		}
		synctest.Wait()
		if n := ours(); n != 3*keep {
			t.Errorf("%d goroutines for %d pieces of work under way", n, 3*keep)
		}
		close(release)
		synctest.Wait()
		if n := ours(); ran != 3*keep || n != keep {
			t.Errorf("%d pieces of work done, and %d goroutines kept; want %d and %d", ran, n, 3*keep, keep)
		}
		slow := make(chan struct{})
		p.Go(func() { <-slow })
		p.Close()
		synctest.Wait()
		if n := ours(); n != 1 {
			t.Errorf("%d goroutines after Close, of which one works", n)
		}
		close(slow)
		late := false
		p.Go(func() { late = true })
		(*Pool)(nil).Go(func() { ran++ })
		synctest.Wait()
		if !late || ran != 3*keep+1 {
			t.Errorf("what a closed and a nil Pool were given: ran %v, %v", late, ran == 3*keep+1)
		}
	})
}

// ours is how many goroutines of Pools there are.
func ours() int {
	buf := make([]byte, 4<<20)
	return strings.Count(string(buf[:runtime.Stack(buf, true)]), "warm.(*Pool).run(")
}

// deep uses the stack as a request does.
//
//go:noinline
func deep(n int) byte {
	var frame [512]byte
	frame[n%512] = byte(n)
	if n == 0 {
		return frame[0]
	}
	return deep(n-1) + frame[n%512]
}

func BenchmarkGo(b *testing.B) {
	for _, bench := range []struct {
		name string
		pool *Pool
	}{{"new goroutines", nil}, {"pool", &Pool{}}} {
		b.Run(bench.name, func(b *testing.B) {
			done := make(chan struct{})
			for b.Loop() {
				bench.pool.Go(func() {
					deep(24) // 12 KiB
					done <- struct{}{}
				})
				<-done
			}
		})
	}
}
