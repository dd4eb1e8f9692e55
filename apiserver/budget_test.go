package apiserver_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/listmemory"
	"vigil/internal/eventually"
)

// TestList_Budget has hundreds of clients that ask for large lists and read nothing. What the server holds for them stays within the
// budget, and another user's lists are as if they were not there.
func TestList_Budget(t *testing.T) {
	const readers = 300
	b := startBudgeted(t, time.Hour)
	want := b.get(b.path, "Accept-Encoding: identity").body
	before := heapInUse()
	framers := b.stall(readers)
	eventually.True(t, "the lists wait for room", func() bool { return b.figure("apiserver_list_waiting") > 200 })

	healthy := newClient(t, b.Client("healthy", "system:masters"))
	for range 20 {
		if got := healthy.get(b.path, "Accept-Encoding: identity").body; !bytes.Equal(got, want) {
			t.Fatalf("the healthy client got %d bytes of %d", len(got), len(want))
		}
		if n := b.figure(bufferedLists); n > perUserOfTests {
			t.Errorf("%.0f bytes in flight", n)
		}
	}
	// Both ends of the connections are in this process.
	grown := heapInUse() - before
	t.Logf("%d readers of %d bytes each: heap and stacks grew by %d KiB", readers, len(want), grown>>10)
	if grown > readers*200<<10 && !raceEnabled { // which makes stacks and pools larger
		t.Errorf("that is %d KiB for each reader", grown>>10/readers)
	}
	if cut := b.figure("apiserver_list_cuts_total"); cut != 0 {
		t.Errorf("%.0f were cut off before they had been waited for long enough", cut)
	}
	for _, f := range framers {
		f.conn.Close()
	}
	eventually.True(t, "everything is given back", func() bool { return b.figure(bufferedLists) == 0 && b.figure("apiserver_list_waiting") == 0 })
}

// TestList_BudgetCuts: clients that read nothing make room for those of the same user that wait. All that read get what they ask for; one that the
// machine keeps from reading for too long is cut off, too, and asks again.
func TestList_BudgetCuts(t *testing.T) {
	b := startBudgeted(t, 2*time.Second)
	stalled := b.stall(150)
	eventually.True(t, "lists wait for room", func() bool { return b.figure("apiserver_list_waiting") > 0 })
	var wg sync.WaitGroup
	var again atomic.Int64
	for range 50 {
		wg.Go(func() {
			for {
				f := b.ask()
				body, complete := f.drain()
				f.conn.Close()
				if complete {
					if !json.Valid(body) {
						t.Errorf("got %.200q", body)
					}
					return
				}
				if again.Add(1) > 5000 || t.Failed() {
					t.Error("cut off again and again")
					return
				}
			}
		})
	}
	wg.Wait()
	cut := b.figure("apiserver_list_cuts_total")
	t.Logf("50 of 50 got their list, %.0f were cut off, %d of them asked again", cut, again.Load())
	if cut <= float64(again.Load()) {
		t.Error("none of those that read nothing was cut off")
	}
	for _, f := range stalled {
		f.conn.Close()
	}
	eventually.True(t, "everything is given back", func() bool { return b.figure(bufferedLists) == 0 && b.figure("apiserver_list_waiting") == 0 })
}

const (
	perUserOfTests = 4 << 20
	bufferedLists  = `apiserver_list_bytes_inflight{kind="buffered"}`
)

// budgeted is a server with little room for lists and many pods to list.
type budgeted struct {
	*apiservertest.Server
	*client
	path string
	slow *tls.Config // of a user whose lists are read slowly or not at all
}

// startBudgeted starts a server that cuts off readers that have stalled for so long when others wait.
func startBudgeted(t *testing.T, patience time.Duration) *budgeted {
	t.Helper()
	s, c, k := start(t, func(c *apiserver.Config) {
		c.Lists = listmemory.Config{Total: 4 * perUserOfTests, PerClient: perUserOfTests, Patience: patience}
	})
	benchPods(t, k, 1000)
	c.get("/api/v1/pods?limit=1") // is consistent: after it all that may be stale has all pods, too
	config, err := rest.TLSConfigFor(s.Client("slow", "system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	return &budgeted{s, c, "/api/v1/pods?resourceVersion=0", config}
}

// ask asks for the list on a connection of its own.
func (b *budgeted) ask() *framer {
	f := dialFramerAs(b.t, b.Server, b.slow.Clone(), 65_535)
	f.get(b.path, "application/json")
	return f
}

// stall has n clients ask for the list and read nothing.
func (b *budgeted) stall(n int) []*framer {
	b.t.Helper()
	framers := make([]*framer, n)
	for i := range framers {
		framers[i] = b.ask()
	}
	return framers
}

// figure is the value of a metric.
func (b *budgeted) figure(name string) (n float64) {
	b.t.Helper()
	for line := range strings.Lines(string(b.get("/metrics").body)) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			if _, err := fmt.Sscan(rest, &n); err != nil {
				b.t.Fatal(err)
			}
			return n
		}
	}
	b.t.Fatalf("no metric %s", name)
	return 0
}

// drain reads the response to its end and opens all windows. It reports false if it was cut off.
func (f *framer) drain() (body []byte, complete bool) {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return body, false
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() && f.WriteSettingsAck() != nil {
				return body, false
			}
		case *http2.DataFrame:
			body = append(body, frame.Data()...)
			if frame.StreamEnded() {
				return body, true
			}
			if n := uint32(len(frame.Data())); n > 0 && (f.WriteWindowUpdate(0, n) != nil || f.WriteWindowUpdate(1, n) != nil) {
				return body, false
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return body, false
		}
	}
}
