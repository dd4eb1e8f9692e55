package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// resume is a server restart as its clients see it: --watchers kubelets watch,
// each remembers the last resourceVersion it was told, the server goes away and
// comes back, and they all connect again at once and go on from there. A
// watcher that is refused with 410 must list again, which is what is counted.
//
// The caller restarts the server when it reads "restart" and writes the new
// process into --pid-file.
func resume() error {
	rv, err := currentRV()
	if err != nil {
		return err
	}
	path := func(i int, rv string) string {
		return "/api/v1/pods?watch=true&allowWatchBookmarks=true&fieldSelector=spec.nodeName%3Dnode-" + strconv.Itoa(i%o.nodes) + "&resourceVersion=" + rv
	}
	f, err := openFan(watchers, func(i int) string { return path(i, rv) })
	if err != nil {
		return err
	}
	// Every watcher is told something: their versions then lie up to --updates apart.
	if _, err := f.drive("before", updates, min(1, watchers), func(i int) int { return i % watchers }); err != nil {
		return err
	}
	newest, err := currentRV()
	if err != nil {
		return err
	}
	old := o.serverPID
	fmt.Println("restart")
	down := time.Now()
	if err := awaitRestart(old); err != nil {
		return err
	}
	back := time.Since(down)
	for _, w := range f.ws {
		w.raw.Close()
	}

	base, err := strconv.ParseInt(rv, 10, 64)
	if err != nil {
		return err
	}
	resetPeak(o.serverPID)
	var relists atomic.Int64
	var done hist
	m := startMeter()
	again := &fan{ws: make([]*watcher, watchers)}
	err = each(watchers, watchers, func(i int) error {
		// Update i moved pod i, the only one of watcher i that moved: the version it saw is near base+i.
		w, err := connect(false)
		if err != nil {
			return err
		}
		again.ws[i] = w
		w.s.needle, w.s.found = []byte(stampKey), again.got
		err = w.open(path(i, strconv.FormatInt(base+int64(i%updates), 10)))
		if w.c.status == 410 {
			relists.Add(1)
			w.c.close()
			if w, err = connect(false); err != nil {
				return err
			}
			again.ws[i] = w
			w.s.needle, w.s.found = []byte(stampKey), again.got
			if _, _, err := w.c.do("GET", fmt.Sprintf("/api/v1/pods?resourceVersion=0&fieldSelector=spec.nodeName%%3Dnode-%d", i%o.nodes), nil); err != nil {
				return err
			}
			err = w.open(path(i, newest))
		}
		if err != nil {
			return err
		}
		done.add(time.Since(m.start))
		return nil
	})
	if err != nil {
		return err
	}
	u := m.stop()
	_, peak := memOf(o.serverPID)
	for _, w := range again.ws {
		go w.read(nil)
	}
	// They must really be there: one more update for each of a sample.
	n := min(watchers, 200)
	r, err := again.drive("check", n, 1, func(i int) int { return i % watchers })
	if err != nil {
		return err
	}
	_ = r
	newResult("resume").add("watchers", watchers).add("pods", o.pods).add("back", back).add("all_resumed_s", u.wall).latency("resumed_", &done).
		add("relists", relists.Load()).add("server_cpu_s", u.server).usage(u).add("peak_rss_mb", peak).
		add("delivered_after", again.delivered.Load()).print()
	return nil
}

// awaitRestart waits for another process than old to be named in --pid-file and to be ready.
func awaitRestart(old int) error {
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		b, _ := os.ReadFile(pidFile)
		pid, err := strconv.Atoi(string(bytes.TrimSpace(b)))
		if err != nil || pid == old {
			continue
		}
		c, err := dial(o.target, false)
		if err != nil {
			continue
		}
		status, _, err := c.do("GET", "/readyz", nil)
		c.close()
		if err == nil && status == 200 {
			o.serverPID = pid
			return nil
		}
	}
	return fmt.Errorf("the server did not come back")
}

var (
	bigObjects int
	bigBytes   int
	bigLimitMB float64
)

// bigStorm asks for the initial events of a collection of large objects from many
// clients at once. What arrives is counted and thrown away.
func bigStorm() error {
	if err := bigCreate(); err != nil {
		return err
	}
	time.Sleep(settleTime)
	ws := make([]*watcher, watchers)
	err := each(watchers, 64, func(i int) (err error) {
		ws[i], err = connect(false)
		return err
	})
	if err != nil {
		return err
	}
	resetPeak(o.serverPID)
	r0, _ := memOf(o.serverPID)
	var bytes, complete atomic.Int64
	var done hist
	over := make(chan struct{})
	var guard sync.WaitGroup
	exceeded := false
	guard.Go(func() { // a server that takes all memory would take the machine with it
		for {
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
			}
			if rss, _ := memOf(o.serverPID); rss > bigLimitMB {
				exceeded = true
				for _, w := range ws {
					w.raw.Close()
				}
				return
			}
		}
	})
	m := startMeter()
	failed := each(watchers, watchers, func(i int) error {
		w := ws[i]
		w.s.needle = []byte("initial-events-end")
		if err := w.open("/api/v1/namespaces/big/configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"); err != nil {
			return err
		}
		w.read(func() bool { return w.s.sawEnd })
		bytes.Add(w.s.bytes)
		if !w.s.sawEnd {
			return fmt.Errorf("watch ended after %d events: %v", w.s.events, w.err)
		}
		if w.s.bytes >= int64(bigObjects)*int64(bigBytes) {
			complete.Add(1)
		}
		done.add(time.Since(m.start))
		return nil
	})
	u := m.stop()
	close(over)
	guard.Wait()
	_, peak := memOf(o.serverPID)
	r := newResult("big").add("clients", watchers).add("objects", bigObjects).add("object_bytes", bigBytes).add("complete", complete.Load()).
		add("all_synced_s", u.wall).latency("sync_", &done).add("gb", float64(bytes.Load())/1e9).add("mb_s", float64(bytes.Load())/1e6/u.wall).
		add("server_cpu_s", u.server).add("server_cpu_s_per_gb", u.server/max(float64(bytes.Load())/1e9, 1e-9)).usage(u).
		add("rss_before_mb", r0).add("peak_rss_mb", peak).add("exceeded_limit", exceeded)
	if failed != nil {
		r.add("error", failed.Error())
	}
	r.print()
	return nil
}

// bigCreate makes the objects, over a few connections: each body is parsed by the server.
func bigCreate() error {
	c, err := dial(o.target, false)
	if err != nil {
		return err
	}
	defer c.close()
	if _, _, err := c.do("POST", "/api/v1/namespaces", []byte(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"big"}}`), "content-type", "application/json"); err != nil {
		return err
	}
	var h hist
	save := o.conns
	o.conns = 4
	defer func() { o.conns = save }()
	text := bytes.Repeat([]byte("0123456789abcdef"), bigBytes/16)
	return pool(bigObjects, &h, func(c *conn, i int) error {
		body := fmt.Appendf(nil, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"big-%04d","namespace":"big"},"data":{"text":"%s"}}`, i, text)
		return write(c, "POST", "/api/v1/namespaces/big/configmaps", body, "load")
	})
}
