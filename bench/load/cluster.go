package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

var (
	since     int64
	clusterTo struct{ settle, idle, after time.Duration }
)

const (
	clusterLimit = 10 * time.Minute // for each wait
	deployment   = "bench"
)

// wholeCluster puts a cluster that is just starting through the life of one Deployment: its nodes get ready, all of its
// pods do, nothing happens for a while, it is deleted, and nothing happens again. The server's process is the whole
// cluster, so its CPU and memory are those of etcd, API server, controllers, scheduler and kubelets together.
func wholeCluster() error {
	if err := untilServed(); err != nil {
		return err
	}
	nodes, err := takeCensus("nodes", "/api/v1/nodes")
	if err != nil {
		return err
	}
	at, err := nodes.await(clusterLimit, func(_, ready int) bool { return ready >= o.nodes })
	if err != nil {
		return err
	}
	newResult("cluster-nodes").add("nodes", o.nodes).add("ready_s", at.Sub(time.Unix(0, since)).Seconds()).add("server_cpu_s", cpuOf(o.serverPID)).print()
	pods, err := takeCensus("pods", "/api/v1/namespaces/default/pods")
	if err != nil {
		return err
	}
	time.Sleep(clusterTo.settle)
	base := anonOf(o.serverPID)
	if err := clusterReady(pods, base); err != nil {
		return err
	}
	if err := clusterIdle("cluster-idle", base); err != nil {
		return err
	}
	if err := clusterDelete(pods); err != nil {
		return err
	}
	time.Sleep(clusterTo.after)
	left := anonOf(o.serverPID) - base
	newResult("cluster-after").add("pods", o.pods).add("base_mb", base).add("left_mb", left).add("left_kb_per_pod", left*1024/float64(o.pods)).print()
	return nil
}

// untilServed waits until the server, which is starting, is ready. Before that it ends watches.
func untilServed() error {
	deadline := time.Now().Add(clusterLimit)
	for {
		err := ready()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func ready() error {
	c, err := dial(o.target, reads)
	if err != nil {
		return err
	}
	defer c.close()
	status, _, err := c.do("GET", "/readyz", nil)
	if err == nil && status != 200 {
		err = fmt.Errorf("readyz: status %d", status)
	}
	return err
}

// clusterReady creates the Deployment and waits for its pods. What goes on for some seconds afterwards belongs to them, too.
func clusterReady(pods *census, base float64) error {
	c, err := dial(o.target, reads)
	if err != nil {
		return err
	}
	defer c.close()
	before, err := requests()
	if err != nil {
		return err
	}
	m := startMeter()
	body := fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%[1]q},"spec":{"replicas":%[2]d,"selector":{"matchLabels":{"app":%[1]q}},"template":{"metadata":{"labels":{"app":%[1]q}},"spec":{"containers":[{"name":"app","image":"demo:1"}]}}}}`, deployment, o.pods)
	if err := write(c, "POST", "/apis/apps/v1/namespaces/default/deployments", []byte(body), "load"); err != nil {
		return err
	}
	at, err := pods.await(clusterLimit, func(_, ready int) bool { return ready >= o.pods })
	if err != nil {
		return err
	}
	ready := at.Sub(m.start).Seconds()
	u := m.stop()
	time.Sleep(clusterTo.settle)
	whole := m.stop()
	after, err := requests()
	if err != nil {
		return err
	}
	_, peak := memOf(o.serverPID)
	anon := anonOf(o.serverPID)
	newResult("cluster-ready").add("pods", o.pods).add("ready_s", ready).add("cpu_ms_per_pod", whole.server*1000/float64(o.pods)).
		add("cpu_ms_per_pod_until_ready", u.server*1000/float64(o.pods)).
		perPod(before, after).
		add("peak_mb", peak).add("anon_mb", anon).add("base_mb", base).usage(u).print()
	return nil
}

// clusterIdle measures while nothing changes.
func clusterIdle(name string, base float64) error {
	before, err := requests()
	if err != nil {
		return err
	}
	m := startMeter()
	time.Sleep(clusterTo.idle)
	u := m.stop()
	after, err := requests()
	if err != nil {
		return err
	}
	anon := anonOf(o.serverPID)
	r := newResult(name).add("pods", o.pods).add("core_percent", 100*u.server/u.wall).add("anon_mb", anon).add("kb_per_pod", (anon-base)*1024/float64(o.pods))
	sum := 0.0
	for _, v := range after.minus(before) {
		sum += v
	}
	r.add("requests_s", sum/u.wall).usage(u).print()
	return nil
}

// clusterDelete deletes the Deployment and waits until its pods are gone.
func clusterDelete(pods *census) error {
	c, err := dial(o.target, reads)
	if err != nil {
		return err
	}
	defer c.close()
	before, err := requests()
	if err != nil {
		return err
	}
	m := startMeter()
	if err := write(c, "DELETE", "/apis/apps/v1/namespaces/default/deployments/"+deployment, nil, "load"); err != nil {
		return err
	}
	at, err := pods.await(clusterLimit, func(all, _ int) bool { return all == 0 })
	if err != nil {
		return err
	}
	gone := at.Sub(m.start).Seconds()
	u := m.stop()
	time.Sleep(clusterTo.settle)
	whole := m.stop()
	after, err := requests()
	if err != nil {
		return err
	}
	newResult("cluster-delete").add("pods", o.pods).add("gone_s", gone).add("cpu_ms_per_pod", whole.server*1000/float64(o.pods)).
		perPod(before, after).usage(u).print()
	return nil
}

// counts are requests that the API server has answered, watches left out, by verb, resource and code.
type counts map[string]float64

func (c counts) minus(before counts) counts {
	d := counts{}
	for k, v := range c {
		if v -= before[k]; v > 0 {
			d[k] = v
		}
	}
	return d
}

// perPod adds the requests for each pod: all, and those that are at least a hundredth.
func (r *result) perPod(before, after counts) *result {
	each, sum := map[string]json.Number{}, 0.0
	for k, v := range after.minus(before) {
		v /= float64(o.pods)
		if sum += v; v >= .01 {
			each[k] = json.Number(strconv.FormatFloat(v, 'f', 2, 64))
		}
	}
	return r.add("all_requests_per_pod", sum).add("requests_per_pod", each)
}

// requests reads apiserver_request_total.
func requests() (counts, error) {
	c, err := dial(o.target, reads)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var body []byte
	if err := c.start("GET", "/metrics", nil); err != nil {
		return nil, err
	}
	if err := c.drain(func(p []byte) { body = append(body, p...) }); err != nil {
		return nil, err
	}
	all := counts{}
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		labels, ok := strings.CutPrefix(lines.Text(), "apiserver_request_total{")
		if !ok {
			continue
		}
		labels, value, _ := strings.Cut(labels, "} ")
		label := func(name string) string {
			_, v, _ := strings.Cut(","+labels, ","+name+`="`)
			v, _, _ = strings.Cut(v, `"`)
			return v
		}
		key := label("verb") + " " + label("resource")
		if s := label("subresource"); s != "" {
			key += "/" + s
		}
		if code := label("code"); code[0] != '2' {
			key += " " + code
		}
		if label("verb") == "WATCH" {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %w", err)
		}
		all[key] += n
	}
	return all, nil
}

// anonOf returns the anonymous memory of a process in MB: its own, without the pages of files.
func anonOf(pid int) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) > 1 && f[0] == "RssAnon:" {
			kb, _ := strconv.ParseFloat(f[1], 64)
			return kb / 1024
		}
	}
	return 0
}
