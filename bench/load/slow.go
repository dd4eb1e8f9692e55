package main

import (
	"bytes"
	"strconv"
	"sync/atomic"
	"time"
)

// slow compares the latency of watchers that read, without and with others that have stopped reading, twice in turn. Then
// it writes large events until the stalled ones have left the window, and looks what has become of them.
func slow() error {
	rv, err := currentRV()
	if err != nil {
		return err
	}
	f, _, _, err := watchersWithMemory(watchers, func(int) string { return allPods + rv })
	if err != nil {
		return err
	}
	pod := func(i int) int { return i % o.pods }
	var ws []*watcher
	for turn := range 2 {
		if err := f.phase("slow-without", pod); err != nil {
			return err
		}
		if ws, err = stall(); err != nil {
			return err
		}
		time.Sleep(settleTime)
		if err := f.phase("slow-with", pod); err != nil {
			return err
		}
		if turn == 0 {
			for _, w := range ws {
				w.c.close()
			}
			time.Sleep(settleTime)
		}
	}
	return f.drop(ws)
}

const allPods = "/api/v1/pods?watch=true&resourceVersion="

func (f *fan) phase(name string, pod func(int) int) error {
	r, err := f.drive(name, updates, len(f.ws), pod)
	if err != nil {
		return err
	}
	rss, _ := memOf(o.serverPID)
	r.add("server_rss_mb", rss).print()
	return nil
}

// stall opens watches of which nobody reads more than the header: half of them in their windows, half in their sockets.
func stall() ([]*watcher, error) {
	rv, err := currentRV()
	if err != nil {
		return nil, err
	}
	ws := make([]*watcher, stalled)
	return ws, each(stalled, 16, func(i int) (err error) {
		if ws[i], err = connect(stallsInWindow + pace(i%2)); err != nil {
			return err
		}
		return ws[i].open(allPods + rv)
	})
}

const (
	largeEvents  = 400
	largePadding = 200 << 10 // with as many events 80 MB: more than any server keeps of a resource
	lastChance   = 12 * time.Second
)

// drop writes large events to the stalled watchers and as many that read. Half of the stalled ones wake up when it is over, the others
// never: how many are told that they have lost events, how many are cut off?
func (f *fan) drop(ws []*watcher) error {
	for _, w := range f.ws[len(ws):] {
		_ = w.raw.Close()
	}
	f.ws = f.ws[:len(ws)]
	time.Sleep(settleTime)
	counted, err := terminatedWatchers()
	if err != nil {
		return err
	}
	resetPeak(o.serverPID)
	before, _ := memOf(o.serverPID)
	padding, rate = largePadding, 40
	defer func() { padding = 0 }()
	few := func(i int) int { return i % 16 } // what is replaced is kept for nobody but those who have not read it
	r, err := f.drive("slow-drop", largeEvents, len(f.ws), few)
	if err != nil {
		return err
	}
	_, peak := memOf(o.serverPID)

	var told, cut, open atomic.Int64
	look := func(i int, patience time.Duration) {
		w := ws[i]
		_ = w.c.c.SetReadDeadline(time.Now().Add(patience))
		w.s.needle = []byte(`"code":410`)
		w.read(nil)
		ne, ok := w.err.(interface{ Timeout() bool })
		switch {
		case w.s.sawEnd:
			told.Add(1)
		case ok && ne.Timeout():
			open.Add(1)
		default:
			cut.Add(1)
		}
	}
	half := len(ws) / 2
	_ = each(half, half, func(i int) error { look(i, lastChance); return nil })
	time.Sleep(lastChance)
	_ = each(len(ws)-half, half, func(i int) error { look(half+i, 5*time.Second); return nil })
	now, err := terminatedWatchers()
	if err != nil {
		return err
	}
	r.add("stalled", len(ws)).add("stalled_told_410", told.Load()).add("stalled_cut_off", cut.Load()).add("stalled_still_open", open.Load()).
		add("stalled_gone", told.Load()+cut.Load()).add("terminated_metric", now-counted).
		add("rss_before_mb", before).add("peak_rss_growth_mb", peak-before).print()
	return nil
}

// terminatedWatchers is what the server counts as watchers that were too slow.
func terminatedWatchers() (sum int, err error) {
	c, err := dial(o.target, reads)
	if err != nil {
		return 0, err
	}
	defer c.close()
	if err := c.start("GET", "/metrics", nil); err != nil {
		return 0, err
	}
	var body []byte
	if err := c.drain(func(p []byte) { body = append(body, p...) }); err != nil {
		return 0, err
	}
	for line := range bytes.Lines(body) {
		if name, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte("} ")); ok && bytes.HasPrefix(name, []byte("apiserver_terminated_watchers_total{")) {
			n, err := strconv.ParseFloat(string(value), 64)
			if err != nil {
				return 0, err
			}
			sum += int(n)
		}
	}
	return sum, nil
}
