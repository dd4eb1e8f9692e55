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
// something changes for each of them, the server goes away before they learn of
// it and comes back, and they all connect again at once and go on from where
// they were. A watcher is through when it has been told of its change. One that
// is refused, with 410 or an ERROR event, lists again and is counted.
//
// The caller restarts the server when it reads "restart" and then writes the
// new process into --pid-file.
func resume() error {
	rv, err := currentRV()
	if err != nil {
		return err
	}
	f, err := openFan(watchers, func(i int) string { return kubeletWatch(i, rv) })
	if err != nil {
		return err
	}
	if _, err := f.drive("before", watchers, min(1, watchers), func(i int) int { return i }); err != nil {
		return err
	}
	fmt.Println("restart")
	down := time.Now()
	if err := awaitRestart(o.serverPID); err != nil {
		return err
	}
	back := time.Since(down)
	for _, w := range f.ws {
		w.raw.Close()
	}

	resetPeak(o.serverPID)
	var relists atomic.Int64
	var done hist
	again := &fan{ws: make([]*watcher, watchers)}
	m := startMeter()
	err = each(watchers, watchers, func(i int) error {
		w, relisted, err := resumeOne(i, rv)
		if err != nil {
			return err
		}
		if relisted {
			relists.Add(1)
		}
		done.add(time.Since(m.start))
		again.ws[i] = w
		return nil
	})
	if err != nil {
		return err
	}
	u := m.stop()
	_, peak := memOf(o.serverPID)
	for _, w := range again.ws {
		w.s.found = again.got
		go w.read(nil)
	}
	// They must really be there: one more change for some of them.
	n := min(watchers, 200)
	if _, err := again.drive("check", n, 1, func(i int) int { return i }); err != nil {
		return err
	}
	newResult("resume").add("watchers", watchers).add("pods", o.pods).add("back", back).add("all_resumed_s", u.wall).latency("resumed_", &done).
		add("relists", relists.Load()).add("server_cpu_s", u.server).usage(u).add("peak_rss_mb", peak).
		add("checked", n).add("check_delivered", again.delivered.Load()).print()
	return nil
}

func kubeletWatch(i int, rv string) string {
	return "/api/v1/pods?watch=true&allowWatchBookmarks=true&fieldSelector=spec.nodeName%3Dnode-" + strconv.Itoa(i%o.nodes) + "&resourceVersion=" + rv
}

// resumeOne goes on watching from rv and returns once it was told of a change, or has listed anew and watches from there.
func resumeOne(i int, rv string) (w *watcher, relisted bool, err error) {
	if w, err = connect(reads); err != nil {
		return nil, false, err
	}
	told := false
	w.s.needle, w.s.found = []byte(stampKey), func(int64, int) { told = true }
	err = w.open(kubeletWatch(i, rv))
	if err == nil {
		w.read(func() bool { return told })
		if told {
			w.end.Store(false)
			return w, false, nil
		}
	} else if w.c == nil || w.c.status != 410 {
		return nil, false, err
	}
	w.raw.Close()

	if w, err = connect(reads); err != nil {
		return nil, true, err
	}
	var head []byte
	if err := w.c.start("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-"+strconv.Itoa(i%o.nodes), nil, "accept", "application/json"); err != nil {
		return nil, true, err
	}
	if err := w.c.drain(func(p []byte) { head = append(head, p[:min(len(p), 512)]...) }); err != nil {
		return nil, true, err
	}
	_, version, ok := bytes.Cut(head, []byte(`"resourceVersion":"`))
	version, _, _ = bytes.Cut(version, []byte(`"`))
	if w.c.status != 200 || !ok {
		return nil, true, fmt.Errorf("list again: status %d", w.c.status)
	}
	w.s.needle = []byte(stampKey)
	return w, true, w.open(kubeletWatch(i, string(version)))
}

// awaitRestart waits for another process than old to be named in --pid-file and to be ready.
func awaitRestart(old int) error {
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		b, _ := os.ReadFile(pidFile)
		pid, err := strconv.Atoi(string(bytes.TrimSpace(b)))
		if err != nil || pid == old {
			continue
		}
		c, err := dial(o.target, reads)
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
		ws[i], err = connect(reads)
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
	c, err := dial(o.target, reads)
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
