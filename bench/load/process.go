package main

import (
	"strconv"
	"strings"
	"time"
)

var (
	listOnly string
	baseMB   float64
	pidFile  string
)

func addFlags(scenario string) {
	switch scenario {
	case "create":
		fs.BoolVar(&withStatus, "status", true, "also PUT every pod's status, as a kubelet does")
		fs.IntVar(&firstPod, "first", 0, "index of the first pod")
	case "get":
		fs.DurationVar(&duration, "duration", 10*time.Second, "how long")
	case "list":
		fs.DurationVar(&duration, "duration", 3*time.Second, "how long each case repeats")
		fs.StringVar(&listOnly, "only", "", "comma-separated cases (and concurrent8)")
	case "fanout", "selective", "slow", "storm", "resume", "big":
		fs.IntVar(&watchers, "watchers", 1000, "watchers (0 in selective: the writes alone)")
		fs.IntVar(&updates, "updates", 600, "updates to write")
		fs.Float64Var(&rate, "rate", 20, "updates per second, 0 for as fast as --conns writers go")
		fs.IntVar(&stalled, "stalled", 50, "slow: watchers that stop reading")
		fs.BoolVar(&perNode, "per-node", false, "storm: fieldSelector spec.nodeName=node-i, as kubelets")
		fs.DurationVar(&waitIdle, "wait", 20*time.Second, "give up when nothing arrives for this long")
		fs.DurationVar(&settleTime, "settle", 3*time.Second, "pause after connecting")
		fs.StringVar(&pidFile, "pid-file", "", "resume: where the PID of the restarted server will be")
		fs.IntVar(&bigObjects, "objects", 400, "big: objects")
		fs.IntVar(&bigBytes, "bytes", 1_000_000, "big: bytes of data in each")
		fs.Float64Var(&bigLimitMB, "limit-mb", 8000, "big: give up when the server's RSS exceeds this")
	case "rss":
		fs.DurationVar(&settleTime, "settle", 20*time.Second, "pause before the second reading")
		fs.Float64Var(&baseMB, "base-mb", 0, "RSS of the empty server, for bytes per pod")
	case "cluster":
		fs.Int64Var(&since, "since", 0, "when the cluster was started, in ns since 1970")
		fs.DurationVar(&clusterTo.settle, "settle", 10*time.Second, "pause after nodes, pods and deletion; its CPU belongs to what was before")
		fs.DurationVar(&clusterTo.idle, "idle", 30*time.Second, "how long nothing happens")
		fs.DurationVar(&clusterTo.after, "after", 50*time.Second, "pause before memory is read, from the settling after the deletion on")
	case "seed":
		fs.StringVar(&seedEtcd, "etcd", "", "etcd's URL")
		fs.StringVar(&seedTemplate, "template", "", "file with a pod as stored in etcd")
		fs.StringVar(&seedSave, "save", "", "instead of writing: keep pod 0 as it is stored in this file")
	case "pki":
		fs.StringVar(&pkiDir, "dir", "pki", "output directory")
		fs.StringVar(&pkiServer, "server", "https://127.0.0.1:6443", "server URL in the kubeconfigs")
	}
}

// rss reports memory now and after settling, and the live heap if the server
// exposes /debug/pprof/heap.
func rss() error {
	r0, h0 := memOf(o.serverPID)
	time.Sleep(settleTime)
	r1, _ := memOf(o.serverPID)
	r := newResult("rss").add("pods", o.pods).add("rss_mb", r0).add("peak_mb", h0).add("rss_settled_mb", r1)
	if baseMB > 0 {
		r.add("bytes_per_pod", (r1-baseMB)*(1<<20)/float64(o.pods))
	}
	if c, err := dial(o.target, reads); err == nil {
		var body []byte
		if c.start("GET", "/debug/pprof/heap?gc=1&debug=1", nil) == nil && c.drain(func(p []byte) { body = append(body, p...) }) == nil {
			for _, k := range []string{"HeapAlloc", "HeapSys", "Stack"} {
				if _, v, ok := strings.Cut(string(body), "# "+k+" = "); ok {
					v, _, _ = strings.Cut(v, "\n")
					v, _, _ = strings.Cut(v, " ")
					n, _ := strconv.ParseFloat(v, 64)
					r.add("live_"+strings.ToLower(k)+"_mb", n/(1<<20))
				}
			}
		}
		c.close()
	}
	_, _ = currentRV()
	r.add("pod_json_bytes", objectBytes).print()
	return nil
}
