package apiserver_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/internal/eventually"
)

// watchers are running watches: what any of them gets comes on lines, its end (nil: in good order) on ended.
type watchers struct {
	t     testing.TB
	lines chan string
	ended chan error
	wg    sync.WaitGroup
}

// openWatchers opens watches of path, so many on each of so many connections, and returns when all have begun.
func openWatchers(t testing.TB, s *apiservertest.Server, conns, each int, path string) *watchers {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watchers{t: t, lines: make(chan string, conns*each), ended: make(chan error, conns*each)}
	t.Cleanup(func() {
		cancel()
		w.wg.Wait()
	})
	admin := s.Admin()
	for range conns {
		c := newClient(t, admin)
		for range each {
			resp := c.open(ctx, http.MethodGet, path, "")
			if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
				t.Fatalf("%s: %s %s", path, resp.Proto, resp.Status)
			}
			w.wg.Go(func() {
				defer resp.Body.Close()
				for lines := bufio.NewScanner(resp.Body); ; {
					if !lines.Scan() {
						w.ended <- lines.Err()
						return
					}
					w.lines <- lines.Text()
				}
			})
		}
	}
	return w
}

// receive waits for n lines that contain text.
func (w *watchers) receive(n int, text string) {
	w.t.Helper()
	deadline := time.After(timeout)
	for i := range n {
		select {
		case line := <-w.lines:
			if !strings.Contains(line, text) {
				w.t.Fatalf("got %.200s, want %q in it", line, text)
			}
		case err := <-w.ended:
			w.t.Fatalf("a watch has ended: %v", err)
		case <-deadline:
			w.t.Fatalf("%d of %d watchers got %q", i, n, text)
		}
	}
}

// TestWatch_Goroutines: a watch over HTTP/2 costs no goroutine.
func TestWatch_Goroutines(t *testing.T) {
	s, _, k := start(t)
	namespace(t, k, "a")
	rv := configMap(t, k, "a", "c1")
	const path = "/api/v1/configmaps?watch=true&allowWatchBookmarks=true&resourceVersion="
	first := openWatchers(t, s, 4, 1, path+rv)
	relabel(t, k, "a", "c1", "n=1")
	first.receive(4, "MODIFIED")
	before := serverGoroutines(t)
	many := openWatchers(t, s, 4, 250, path+rv)
	many.receive(1000, "MODIFIED")
	const connections = 4
	if after := serverGoroutines(t); after > before+2*connections {
		t.Errorf("%d goroutines of the server before 1000 watches, %d after", before, after)
	}
	relabel(t, k, "a", "c1", "n=2")
	first.receive(4, "MODIFIED")
	many.receive(1000, "MODIFIED")
}

// serverGoroutines counts the goroutines that serve requests or connections, not those of the clients in this process.
func serverGoroutines(t *testing.T) (n int) {
	t.Helper()
	stacks := make([]byte, 64<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, g := range strings.Split(string(stacks), "\n\n") {
		if strings.Contains(g, "vigil/apiserver/read.") || strings.Contains(g, "vigil/h2.") || strings.Contains(g, "net/http.(*conn).serve") {
			n++
		}
	}
	return n
}

// TestWatch_Connection: watches of one connection do not disturb each other when they end.
func TestWatch_Connection(t *testing.T) {
	t.Parallel()
	_, c, k := start(t)
	namespace(t, k, "a")
	rv := configMap(t, k, "a", "c1")
	const path = "/api/v1/configmaps?watch=true&resourceVersion="
	stays := c.watch(path + rv)
	for i := range 50 {
		reset := c.watch(path + rv)
		ends := c.watch("/api/v1/configmaps?watch=true&timeoutSeconds=1&resourceVersion=" + rv)
		if i%2 == 0 {
			reset.stop() // while the event is on its way
		}
		rv = relabel(t, k, "a", "c1", fmt.Sprint("n=", i))
		if i%2 == 1 {
			reset.expect("MODIFIED c1")
			reset.stop()
		}
		if e := stays.expect("MODIFIED c1"); e.Object.Metadata.ResourceVersion != rv {
			t.Fatalf("event at %s, want %s", e.Object.Metadata.ResourceVersion, rv)
		}
		if i == 49 {
			for _, ok := ends.next(); ok; _, ok = ends.next() {
				// Whether it still gets the event depends on the machine.
			}
		}
	}
	const running = `apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps",scope="cluster",subresource="",verb="WATCH",version="v1"} 1`
	eventually.True(t, "only one watch is left", func() bool { return strings.Contains(string(c.get("/metrics").body), running) })
}

// TestWatch_Large: initial events of many times a client's window, in one stream and in several at once.
func TestWatch_Large(t *testing.T) {
	t.Parallel()
	s, _, k := start(t)
	namespace(t, k, "a")
	data := map[string]string{"data": strings.Repeat("x", 900<<10)}
	const objects = 12
	for i := range objects {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}, Data: data}
		if _, err := k.CoreV1().ConfigMaps("a").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	c := newClient(t, s.Admin())
	var wg sync.WaitGroup
	for range 8 {
		w := c.watch("/api/v1/configmaps?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
		wg.Go(func() {
			for range objects {
				if e, ok := w.next(); !ok || e.Type != "ADDED" {
					t.Errorf("got %s", e)
					return
				}
			}
			if e, ok := w.next(); !ok || e.String() != "BOOKMARK end" {
				t.Errorf("got %s, want the end of the initial events", e)
			}
		})
	}
	wg.Wait()
}

// TestShutdown_Watches stops a server with thousands of watches: all end in good order, each with a bookmark, at once.
func TestShutdown_Watches(t *testing.T) {
	s, _, k := start(t, func(c *apiserver.Config) { c.ShutdownTimeout = timeout })
	namespace(t, k, "a")
	rv := configMap(t, k, "a", "c1")
	const conns, each = 20, 150
	w := openWatchers(t, s, conns, each, "/api/v1/configmaps?watch=true&allowWatchBookmarks=true&resourceVersion="+rv)
	idle := newClient(t, s.Admin())
	idle.get("/version")
	began := time.Now()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	took := time.Since(began)
	t.Logf("%d watches ended in %v", conns*each, took)
	if took >= timeout { // something did not end by itself
		t.Errorf("took %v", took)
	}
	for range conns * each {
		select {
		case line := <-w.lines:
			if !strings.Contains(line, "BOOKMARK") {
				t.Errorf("got %.200s", line)
			}
		case <-time.After(timeout):
			t.Fatal("a watch got no bookmark")
		}
		if err := <-w.ended; err != nil {
			t.Errorf("a watch ended with %v", err)
		}
	}
}
