// Command load measures any Kubernetes-compatible API server from the outside:
// latency and throughput at the client, CPU time and memory of the server from
// /proc. One JSON line on stdout for each measurement. See ../README.md for the
// scenarios and for what is counted.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"
)

// options shared by every scenario.
type options struct {
	kubeconfig string
	serverPID  int
	etcdPID    int
	label      string
	mark       bool
	http1      bool
	proto      bool
	pods       int
	nodes      int
	namespaces int
	conns      int

	target target
}

var (
	o  options
	fs = flag.NewFlagSet("load", flag.ExitOnError)
)

var scenarios = map[string]struct {
	run  func() error
	help string
}{
	"create":    {create, "create pods (POST, then PUT status); ops/s, latency, CPU"},
	"get":       {get, "single GETs"},
	"list":      {list, "full, selected, paginated lists and 8 concurrent lists"},
	"fanout":    {fanout, "watchers of everything x updates"},
	"selective": {selective, "one watcher per node (fieldSelector) x updates"},
	"storm":     {storm, "simultaneous sendInitialEvents watches"},
	"slow":      {slow, "healthy watchers with and without stalled ones"},
	"rss":       {rss, "memory now, and after a settling time"},
	"resume":    {resume, "watchers that resume all at once after the server was restarted"},
	"big":       {bigStorm, "simultaneous initial events over large objects"},
	"cluster":   {wholeCluster, "a whole cluster in one process and the life of one Deployment in it"},
	"seed":      {seed, "write pods straight into etcd, all like one template"},
	"pki":       {pki, "write a CA, a serving certificate and kubeconfigs"},
}

func main() {
	if len(os.Args) < 2 || scenarios[os.Args[1]].run == nil {
		fmt.Fprintln(os.Stderr, "usage: load SCENARIO [flags]")
		for _, n := range []string{"create", "get", "list", "fanout", "selective", "storm", "slow", "resume", "big", "cluster", "rss", "seed", "pki"} {
			fmt.Fprintf(os.Stderr, "  %-10s %s\n", n, scenarios[n].help)
		}
		os.Exit(2)
	}
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig with a client certificate or token")
	fs.IntVar(&o.serverPID, "server-pid", 0, "server process, for CPU and RSS")
	fs.IntVar(&o.etcdPID, "etcd-pid", 0, "etcd process, for CPU")
	fs.StringVar(&o.label, "label", "", "name of the server, copied to the result")
	fs.BoolVar(&o.mark, "mark", false, "print a line when a measurement begins, for whoever takes a profile")
	fs.BoolVar(&o.http1, "http1", false, "watch over HTTP/1.1 instead of HTTP/2")
	fs.BoolVar(&o.proto, "proto", false, "ask for protobuf instead of JSON")
	fs.IntVar(&o.pods, "pods", 10000, "pods (loaded, or to create)")
	fs.IntVar(&o.nodes, "nodes", 5000, "node names the pods are spread over")
	fs.IntVar(&o.namespaces, "namespaces", 50, "namespaces the pods are spread over")
	fs.IntVar(&o.conns, "conns", 16, "concurrent request connections")
	sc := scenarios[os.Args[1]]
	addFlags(os.Args[1])
	_ = fs.Parse(os.Args[2:])
	raiseNoFile()
	var err error
	if os.Args[1] != "pki" && os.Args[1] != "seed" {
		o.target, err = loadKubeconfig(o.kubeconfig)
	}
	if err == nil {
		err = sc.run()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "load %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}

func raiseNoFile() {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return
	}
	l.Cur = max(l.Max, 65536)
	l.Max = l.Cur
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) != nil { // not privileged: at least soft = hard
		_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l)
		l.Cur = l.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
	}
}

// result is an ordered set of named figures: one JSON line plus a human line.
type result struct {
	keys []string
	vals []any
}

func newResult(scenario string) *result {
	r := &result{}
	r.add("scenario", scenario)
	if o.label != "" {
		r.add("server", o.label)
	}
	return r
}

func (r *result) add(k string, v any) *result {
	switch x := v.(type) {
	case float64:
		v = json.Number(fmt.Sprintf("%.4g", x))
		if x >= 1000 || x == 0 {
			v = json.Number(fmt.Sprintf("%.0f", x))
		}
	case time.Duration:
		k, v = k+"_ms", json.Number(fmt.Sprintf("%.3f", x.Seconds()*1000))
	}
	r.keys, r.vals = append(r.keys, k), append(r.vals, v)
	return r
}

// latency adds p50/p99/max of h.
func (r *result) latency(prefix string, h *hist) *result {
	return r.add(prefix+"p50", h.quantile(.5)).add(prefix+"p99", h.quantile(.99)).add(prefix+"max", h.quantile(1))
}

func (r *result) print() {
	var j, h strings.Builder
	for i, k := range r.keys {
		b, _ := json.Marshal(r.vals[i])
		fmt.Fprintf(&j, ",%q:%s", k, b)
		fmt.Fprintf(&h, " %s=%v", k, r.vals[i])
	}
	fmt.Printf("{%s}\n", j.String()[1:])
	fmt.Fprintf(os.Stderr, "#%s\n", h.String())
}
