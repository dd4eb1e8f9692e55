package main

import (
	"fmt"
	"slices"
)

// figures are one server's results.
type figures []result

// of is the median of a figure over all results of a step; case and scenario
// name one of several kinds of result that a step gives, "" any.
func (f figures) of(step, kase, figure string) (float64, bool) {
	var all []float64
	for _, r := range f {
		if r.text("step") != step || kase != "" && r.text("case") != kase && r.text("scenario") != kase {
			continue
		}
		if v, ok := r.number(figure); ok {
			all = append(all, v)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	return all[len(all)/2], true
}

// measure computes one cell.
type measure func(figures) (float64, bool)

func figure(step, kase, name string, factor float64) measure {
	return func(f figures) (float64, bool) {
		v, ok := f.of(step, kase, name)
		return v * factor, ok
	}
}

// combined is a measure of two others.
func combined(a, b measure, op func(a, b float64) float64) measure {
	return func(f figures) (float64, bool) {
		x, ok := a(f)
		y, ok2 := b(f)
		return op(x, y), ok && ok2
	}
}

// promise says how a row is judged.
type promise int

const (
	shown   promise = iota // not judged
	less                   // upstream / Vigil >= target
	more                   // Vigil / upstream >= target
	atMost                 // Vigil <= target
	atLeast                // Vigil >= target
)

// row is one line of the table.
type row struct {
	name    string
	unit    string
	value   measure
	promise promise
	target  float64
}

const ms = 1000 // CPU-s to CPU-ms

// rows are the targets of the project, in the order of its scenarios.
func rows(z sizes) []row {
	var all []row
	add := func(name, unit string, m measure, p promise, target float64) {
		all = append(all, row{name, unit, m, p, target})
	}
	f := fmt.Sprintf
	lists := func(step string, pods int) {
		cpu := func(kase string) measure { return figure(step, kase, "server_cpu_s_per_list", ms) }
		add(f("list %d pods, JSON", pods), "CPU-ms", cpu("full-json"), less, 12)
		add(f("list %d pods, JSON", pods), "MB/s", figure(step, "full-json", "mb_s", 1), more, 10)
		add(f("list %d pods, JSON, rv=0", pods), "CPU-ms", cpu("full-json-rv0"), less, 12)
		add(f("list %d pods, protobuf", pods), "CPU-ms", cpu("full-proto"), less, 8)
		add(f("list %d pods, gzip JSON", pods), "CPU-ms", cpu("full-json-gzip"), less, 20)
		add(f("list %d pods in pages of 500", pods), "CPU-ms", cpu("paged-500-json"), less, 5)
		add(f("list one namespace of %d pods", pods), "CPU-ms", cpu("namespace-json"), less, 5)
		add(f("list a label of 1 %% of %d pods", pods), "CPU-ms", cpu("label-1pct-json"), less, 5)
		add(f("list one node of %d pods", pods), "CPU-ms", cpu("field-node-json"), less, 5)
	}
	add(f("list %d pods, JSON, the first time", z.small), "CPU-ms", figure("list-first", "", "server_cpu_s_per_list", ms), shown, 0)
	add(f("list %d pods, gzip JSON, the first time", z.small), "CPU-ms", figure("list-first-gzip", "", "server_cpu_s_per_list", ms), shown, 0)
	lists("list", z.small)
	add(f("list %d pods, JSON, the first time", z.large), "CPU-ms", figure("list-large-first", "", "server_cpu_s_per_list", ms), shown, 0)
	lists("list-large", z.large)
	for _, k := range []string{"full-json-rv0", "full-proto-rv0"} {
		k := k
		grown := func(g figures) (float64, bool) {
			for _, r := range g {
				if r.text("step") == "list-large" && r.text("scenario") == "list-concurrent" && r.text("case") == k {
					return r.number("peak_rss_growth_mb")
				}
			}
			return 0, false
		}
		add(f("8 lists at once, %d pods, %s: RSS grows by", z.large, map[string]string{"full-json-rv0": "JSON", "full-proto-rv0": "protobuf"}[k]), "MB", grown, atMost, 100)
	}

	add(f("storm: %d clients, %d pods, JSON", z.stormClients, z.small), "CPU-s", figure("storm", "", "server_cpu_s", 1), less, 20)
	add(f("storm: %d clients, %d pods, protobuf", z.stormClients, z.small), "CPU-s", figure("storm-proto", "", "server_cpu_s", 1), less, 12)
	each := func(i, n int) measure {
		return figure(f("storm-nodes-%d", i), "", "server_cpu_s", ms/float64(n))
	}
	for i, n := range z.kubelets {
		add(f("storm: %d kubelets, %d pods, each", n, z.small), "CPU-ms", each(i+1, n), less, 25)
	}
	large := figure("storm-nodes-large", "", "server_cpu_s", ms/float64(z.kubelets[0]))
	add(f("storm: %d kubelets, %d pods, each", z.kubelets[0], z.large), "CPU-ms", large, less, 25)
	add(f("the same, %d pods over %d pods", z.large, z.small), "x", combined(large, each(1, z.kubelets[0]), func(a, b float64) float64 { return a / b }), atMost, 1.25)

	delivered := func(step string) measure { return figure(step, "", "server_cpu_s_per_1M_delivered", 1) }
	add(f("fan-out: %d watchers x 10/s", z.fan), "us/delivery", delivered("fanout"), atMost, 15)
	add(f("fan-out: %d watchers x 10/s, protobuf", z.fan), "us/delivery", delivered("fanout-proto"), shown, 0)
	add(f("fan-out: %d watchers x 10/s, HTTP/1.1", z.fan), "us/delivery", delivered("fanout-http1"), shown, 0)
	add(f("fan-out: %d watchers x 10/s, last watcher, p50", z.fan), "ms", figure("fanout", "", "last_p50_ms", 1), shown, 0)
	add(f("fan-out: %d watchers x 2/s", z.fanMany), "us/delivery", delivered("fanout-many"), atMost, 15)
	add(f("fan-out: %d watchers, saturated", z.fan), "deliveries/s", figure("fanout-flat", "", "delivered_s", 1), atLeast, 150000)
	add(f("fan-out: %d watchers, saturated", z.fan), "us/delivery", delivered("fanout-flat"), shown, 0)
	add(f("fan-out: %d watchers, saturated, protobuf", z.fan), "deliveries/s", figure("fanout-flat-proto", "", "delivered_s", 1), shown, 0)
	add(f("fan-out: %d watchers, saturated: dropped", z.fan), "watchers", combined(figure("fanout-flat", "", "watchers", 1), figure("fanout-flat", "", "watchers_alive", 1), func(a, b float64) float64 { return a - b }), atMost, 0)

	last := len(z.selective) - 1
	sel := func(i int) measure { return figure(f("selective-%d", i), "", "server_cpu_s_per_1000_updates", ms/1000) }
	add(f("selective: %d kubelets, an update", z.selective[last]), "CPU-ms", sel(last), less, 4)
	add(f("selective: %d kubelets over none", z.selective[last]), "%", combined(sel(last), sel(0), func(a, b float64) float64 { return 100 * (a/b - 1) }), atMost, 5)

	per := func(step, kase, name string) measure { return figure(step, kase, name, ms/1000) }
	add("create, 16 connections", "CPU-ms", per("create-16", "create", "server_cpu_s_per_1000"), less, 3)
	add("create, 16 connections", "/s", figure("create-16", "create", "ops_s", 1), more, 3)
	add("create, 16 connections: etcd", "CPU-ms", per("create-16", "create", "etcd_cpu_s_per_1000"), shown, 0)
	add("PUT status, 16 connections", "CPU-ms", per("create-16", "status-put", "server_cpu_s_per_1000"), less, 3)
	add("PUT status, 16 connections", "/s", figure("create-16", "status-put", "ops_s", 1), shown, 0)
	add("get, 16 connections", "CPU-ms", per("get-16", "", "server_cpu_s_per_1000"), less, 5)
	add("get, 16 connections", "/s", figure("get-16", "", "ops_s", 1), shown, 0)
	add("get, 16 connections: etcd", "CPU-ms", per("get-16", "", "etcd_cpu_s_per_1000"), shown, 0)
	add("get, 1 connection, p50", "ms", figure("get-1", "", "p50_ms", 1), shown, 0)
	add("create, 1 connection, p50", "ms", figure("create-1", "create", "p50_ms", 1), shown, 0)

	add(f("RSS for each of %d watchers", z.fan), "KB", figure("fanout", "", "rss_kb_per_watcher", 1), atMost, 40)
	add(f("RSS for each of %d watchers", z.fanMany), "KB", figure("fanout-many", "", "rss_kb_per_watcher", 1), atMost, 40)
	minus := func(step string, pods int) measure {
		return combined(figure(step, "", "rss_mb", 1024/float64(pods)), figure("startup", "", "rss_mb", 1024/float64(pods)), func(a, b float64) float64 { return a - b })
	}
	add(f("memory for each of %d pods, fresh", z.large), "KB", minus("startup-large", z.large), atMost, 5)
	add("RSS, no pods", "MB", figure("startup", "", "rss_mb", 1), shown, 0)
	add(f("RSS, %d pods", z.large), "MB", figure("startup-large", "", "rss_mb", 1), shown, 0)
	add(f("ready with %d pods", z.small), "s", figure("startup-small", "", "ready_ms", .001), shown, 0)
	add(f("ready with %d pods", z.large), "s", figure("startup-large", "", "ready_ms", .001), atMost, 1)

	add(f("informer, %d pods: an event", z.large), "us", figure("informer", "informer-events", "cpu_us_per_event", 1), less, 5)
	add(f("informer, %d pods: heap for each", z.large), "KB", figure("informer", "informer-sync", "heap_bytes_per_object", 1.0/1024), atMost, 4)
	add(f("informer, %d pods: sync", z.large), "CPU-s", figure("informer", "informer-sync", "cpu_s", 1), shown, 0)

	slow := combined(figure("slow", "slow-with", "each_p99_ms", 1), figure("slow", "slow-without", "each_p99_ms", 1), func(a, b float64) float64 { return 100 * (a/b - 1) })
	add(f("50 stalled among %d: p99 of the others, more by", z.fan), "%", slow, atMost, 10)
	add("50 stalled: RSS more by", "MB", combined(figure("slow", "slow-with", "server_rss_mb", 1), figure("slow", "slow-without", "server_rss_mb", 1), func(a, b float64) float64 { return a - b }), shown, 0)
	add("50 stalled leave the window: told 410, or cut off if they go on sleeping", "watchers", figure("slow", "slow-drop", "stalled_gone", 1), atLeast, 50)
	add("50 stalled leave the window: counted in a metric", "watchers", figure("slow", "slow-drop", "terminated_metric", 1), atLeast, 50)
	add("50 stalled leave the window: peak RSS more by", "MB", figure("slow", "slow-drop", "peak_rss_growth_mb", 1), shown, 0)
	add(f("%d watchers resume after a restart, in", z.kubelets[len(z.kubelets)-1]), "s", figure("resume", "resume", "all_resumed_s", 1), atMost, 5)
	add("of them had to list again", "watchers", figure("resume", "resume", "relists", 1), atMost, 0)
	add(f("%d clients, %d objects of 1 MB at once (upstream: %d clients)", z.bigClients, z.bigObjects, z.bigPeer), "MB peak RSS", figure("big", "", "peak_rss_mb", 1), atMost, 1000)
	add("of them got everything", "clients", figure("big", "", "complete", 1), atLeast, float64(z.bigClients))

	n := z.clusterPods[2]
	life := func(kase, name string) measure { return figure("cluster-3", kase, name, 1) }
	add(f("cluster: %d nodes ready after the start", z.clusterNodes), "s", life("cluster-nodes", "ready_s"), atMost, 2)
	add(f("cluster: %d pods of one Deployment ready", n), "s", life("cluster-ready", "ready_s"), atMost, 30)
	add(f("the same over that of %d pods", z.clusterPods[0]), "x", combined(life("cluster-ready", "ready_s"), figure("cluster-1", "cluster-ready", "ready_s", 1), func(a, b float64) float64 { return a / b }), atMost, 10)
	add("cluster: a pod gets ready, all components", "CPU-ms", life("cluster-ready", "cpu_ms_per_pod"), atMost, 5)
	add("cluster: a pod gets ready", "requests", life("cluster-ready", "all_requests_per_pod"), shown, 0)
	add("cluster: memory for each pod", "KB", life("cluster-idle", "kb_per_pod"), atMost, 20)
	add(f("cluster: %d nodes and %d pods, nothing happens", z.clusterNodes, n), "% of a core", life("cluster-idle", "core_percent"), atMost, 6)
	add(f("cluster: %d pods deleted", n), "s", life("cluster-delete", "gone_s"), atMost, 20)
	add("cluster: a pod is deleted, all components", "CPU-ms", life("cluster-delete", "cpu_ms_per_pod"), shown, 0)
	add("cluster: a pod is deleted", "requests", life("cluster-delete", "all_requests_per_pod"), shown, 0)
	add("cluster: of the pods' memory left a minute later", "%", combined(life("cluster-after", "left_kb_per_pod"), life("cluster-idle", "kb_per_pod"), func(a, b float64) float64 { return 100 * a / b }), atMost, 10)
	return all
}

// series is how the cost of one kind of work grows.
type series struct {
	name   string
	unit   string
	points []point
	design string // how it should grow
}

type point struct {
	at    string
	value measure
}

func scaling(z sizes) []series {
	f := fmt.Sprintf
	pods := func(name, kase, figureName string, factor float64, unit, design string) series {
		return series{name, unit, []point{
			{f("%d pods", z.tiny), figure("list-tiny", kase, figureName, factor)},
			{f("%d", z.small), figure("list", kase, figureName, factor)},
			{f("%d", z.large), figure("list-large", kase, figureName, factor)}}, design}
	}
	const cpu = "server_cpu_s_per_list"
	// What a delivery costs beyond the writes, which are many when there are few watchers.
	write := figure("selective-0", "", "server_cpu_s_per_1000_updates", 1000)
	delivered := func(step string, watchers int) measure {
		return combined(figure(step, "", "server_cpu_s_per_1000_updates", 1000), write, func(a, b float64) float64 { return (a - b) / float64(watchers) })
	}
	life := func(name, kase, figureName, unit, design string) series {
		var points []point
		for i, n := range z.clusterPods {
			points = append(points, point{f("%d", n), figure(f("cluster-%d", i+1), kase, figureName, 1)})
		}
		points[0].at += " pods"
		return series{name, unit, points, design}
	}
	return []series{
		pods("list all, JSON", "full-json-rv0", cpu, ms, "CPU-ms", "with the bytes"),
		pods("list all, protobuf", "full-proto-rv0", cpu, ms, "CPU-ms", "with the bytes"),
		pods("list all, gzip", "full-json-gzip", cpu, ms, "CPU-ms", "with the compressed bytes"),
		pods("list 1 % by label", "label-1pct-json", cpu, ms, "CPU-ms", "with what is selected, plus a scan"),
		pods("list one namespace of 50", "namespace-json", cpu, ms, "CPU-ms", "with what is selected"),
		pods("list one node of 5000", "field-node-json", cpu, ms, "CPU-ms", "with what is selected"),
		{"kubelet's initial events", "CPU-ms each", []point{
			{f("%d x %d pods", z.kubelets[0], z.small), figure("storm-nodes-1", "", "server_cpu_s", ms/float64(z.kubelets[0]))},
			{f("%d x %d", z.kubelets[1], z.small), figure("storm-nodes-2", "", "server_cpu_s", ms/float64(z.kubelets[1]))},
			{f("%d x %d", z.kubelets[0], z.large), figure("storm-nodes-large", "", "server_cpu_s", ms/float64(z.kubelets[0]))}}, "constant"},
		{"fan-out, a delivery without the write", "us", []point{
			{f("%d x 100/s", z.fan/10), delivered("fanout-few", z.fan/10)},
			{f("%d x 10/s", z.fan), delivered("fanout", z.fan)},
			{f("%d x 2/s", z.fanMany), delivered("fanout-many", z.fanMany)}}, "constant"},
		{"RSS of a watcher", "KB", []point{
			{f("%d watchers", z.fan/10), figure("fanout-few", "", "rss_kb_per_watcher", 1)},
			{f("%d", z.fan), figure("fanout", "", "rss_kb_per_watcher", 1)},
			{f("%d", z.fanMany), figure("fanout-many", "", "rss_kb_per_watcher", 1)}}, "constant"},
		{"start, until ready", "ms", []point{
			{"0 pods", figure("startup", "", "ready_ms", 1)},
			{f("%d", z.small), figure("startup-small", "", "ready_ms", 1)},
			{f("%d", z.large), figure("startup-large", "", "ready_ms", 1)}}, "with the bytes in etcd"},
		life("cluster: pods of a Deployment ready", "cluster-ready", "ready_s", "s", "with the pods"),
		life("cluster: a pod gets ready", "cluster-ready", "cpu_ms_per_pod", "CPU-ms", "constant"),
		life("cluster: requests until a pod is ready", "cluster-ready", "all_requests_per_pod", "requests", "constant"),
		life("cluster: memory of a pod", "cluster-idle", "kb_per_pod", "KB", "constant"),
		life("cluster: nothing happens", "cluster-idle", "core_percent", "% of a core", "constant"),
		life("cluster: pods deleted", "cluster-delete", "gone_s", "s", "with the pods"),
		life("cluster: a pod is deleted", "cluster-delete", "cpu_ms_per_pod", "CPU-ms", "constant"),
	}
}
