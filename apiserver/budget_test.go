package apiserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/budget"
)

// TestList_Budget has hundreds of clients that ask for large lists and read nothing. What the server holds for them stays within the
// budget, another user's lists are as if they were not there, and those who stall make room for those who wait.
func TestList_Budget(t *testing.T) {
	const perUser, readers, pods = 4 << 20, 300, 1000
	s, c, k := start(t, func(c *apiserver.Config) {
		c.Lists = budget.Config{Total: 16 << 20, PerClient: perUser, Patience: 2 * time.Second}
	})
	benchPods(t, k, pods)
	const path = "/api/v1/pods?resourceVersion=0"
	want := c.get(path, "Accept-Encoding: identity").body
	before := heapInUse()

	config, err := rest.TLSConfigFor(s.Client("slow", "system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	framers := make([]*framer, readers)
	for i := range framers {
		framers[i] = dialFramerAs(t, s, config.Clone(), 65_535)
		framers[i].get(path, "application/json")
	}
	figure := func(name string) (n float64) {
		for line := range strings.Lines(string(c.get("/metrics").body)) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				if _, err := fmt.Sscan(rest, &n); err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
		t.Fatalf("no metric %s", name)
		return 0
	}
	const buffered = `apiserver_list_bytes_inflight{kind="buffered"}`
	eventually(t, "the lists wait for room", func() bool { return figure("apiserver_list_waiting") > 200 })

	healthy := newClient(t, s.Client("healthy", "system:masters"))
	for range 20 {
		if got := healthy.get(path, "Accept-Encoding: identity").body; !bytes.Equal(got, want) {
			t.Fatalf("the healthy client got %d bytes of %d", len(got), len(want))
		}
		if n := figure(buffered); n > perUser {
			t.Errorf("%.0f bytes in flight", n)
		}
	}
	// Both ends of the connections are in this process.
	grown := heapInUse() - before
	t.Logf("%d readers of %d bytes each: heap and stacks grew by %d KiB", readers, len(want), grown>>10)
	if grown > readers*200<<10 {
		t.Errorf("that is %d KiB for each reader", grown>>10/readers)
	}

	// The second half reads now: all of it gets what it asked for, since the first half, which still does not, is cut off.
	var wg sync.WaitGroup
	whole := make([]bool, readers)
	for i, f := range framers {
		wg.Go(func() {
			if i < readers/2 {
				return
			}
			body, complete := f.drain()
			whole[i] = complete && json.Valid(body)
		})
	}
	wg.Wait()
	complete := 0
	for _, ok := range whole {
		if ok {
			complete++
		}
	}
	t.Logf("%d of %d got their list, %.0f were cut off", complete, readers/2, figure("apiserver_list_cuts_total"))
	if complete < readers/3 {
		t.Errorf("%d of %d readers got their list", complete, readers/2)
	}
	if figure("apiserver_list_cuts_total") == 0 {
		t.Error("nobody was cut off")
	}
	for _, f := range framers {
		f.conn.Close()
	}
	eventually(t, "everything is given back", func() bool { return figure(buffered) == 0 && figure("apiserver_list_waiting") == 0 })
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
