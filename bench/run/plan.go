package main

import "fmt"

// population is what etcd holds before the server starts: pods spread over nodes.
type population struct{ pods, nodes int }

// step is one call of the load generator.
type step struct {
	id      string // names its results in the report
	args    string
	profile bool // with PROFILE set, take a CPU profile of the server meanwhile
	long    bool // left out of a quick run
}

// scenario is what one server, started on a fresh copy of the population, is put through.
type scenario struct {
	name  string
	data  population
	steps []step
	// rounds is how often both servers are put through it in turn in a full run; the report takes medians. 0: once.
	rounds int
	// long scenarios are left out of a quick run.
	long bool
	// kind: "" for steps, or one of the special ones below, which the load generator cannot do alone.
	kind string
}

const (
	kindStartup  = "startup"  // start it several times, memory after settling
	kindResume   = "resume"   // restart the server under the load generator
	kindInformer = "informer" // client-go's informer and Vigil's, each in a process of its own
	kindCluster  = "cluster"  // Vigil's whole cluster in one process, a fresh one for each step; upstream has none
)

// sizes are what QUICK changes.
type sizes struct {
	small, large, tiny  int // pods
	create              int
	list, get           string // durations
	settle              string // pause before memory is read or load begins
	stormClients        int
	kubelets            []int
	fan, fanMany        int // watchers
	updates, flat       int
	selective           []int // watchers
	slowUpdates         int
	bigClients, bigPeer int
	bigObjects          int
	informerEvents      int
	starts              int
	clusterNodes        int
	clusterPods         [3]int // of one Deployment
	clusterPauses       string
}

var (
	full = sizes{
		small: 10000, large: 50000, tiny: 1000, create: 3000, list: "1500ms", get: "2s", settle: "3s", stormClients: 50, kubelets: []int{1000, 5000},
		fan: 1000, fanMany: 5000, updates: 200, flat: 400, selective: []int{0, 1000, 5000}, slowUpdates: 200,
		bigClients: 1024, bigPeer: 16, bigObjects: 400, informerEvents: 200000, starts: 3,
		clusterNodes: 1000, clusterPods: [3]int{1000, 3000, 10000},
	}
	quick = sizes{
		small: 5000, large: 10000, tiny: 1000, create: 1000, list: "400ms", get: "1s", settle: "1s", stormClients: 10, kubelets: []int{500, 1000},
		fan: 500, fanMany: 1000, updates: 40, flat: 100, selective: []int{0, 1000}, slowUpdates: 60,
		bigClients: 64, bigPeer: 16, bigObjects: 20, informerEvents: 50000, starts: 1,
		clusterNodes: 300, clusterPods: [3]int{100, 300, 1000}, clusterPauses: " --settle 5s --idle 10s --after 10s",
	}
)

const (
	nodes     = 5000
	fullLists = "full-json-rv0,full-json,full-proto-rv0,full-proto,full-json-gzip,label-1pct-json,field-node-json,namespace-json,paged-500-json"
)

// plan is every scenario in the order in which they are run.
func plan(z sizes) []scenario {
	at := func(n int) population { return population{n, nodes} }
	f := fmt.Sprintf
	fan := func(watchers, updates, rate int, more string) string {
		return f("fanout --pods %d --watchers %d --updates %d --rate %d --settle %s --wait 5s%s", z.small, watchers, updates, rate, z.settle, more)
	}
	storm := func(pods, clients int, more string) string {
		return f("storm --pods %d --watchers %d --settle %s%s", pods, clients, z.settle, more)
	}
	large := nodes * z.large / z.small // so that each has as many pods as among the few
	last := z.kubelets[len(z.kubelets)-1]
	sel := scenario{name: "selective", data: at(z.small)}
	for i, n := range z.selective {
		sel.steps = append(sel.steps, step{id: f("selective-%d", i), profile: i == len(z.selective)-1,
			args: f("selective --pods %d --watchers %d --updates %d --rate 100 --settle %s", z.small, n, z.updates*5, z.settle)})
	}
	all := []scenario{
		{name: "startup", kind: kindStartup, data: at(0)},
		{name: "startup-small", kind: kindStartup, data: at(z.small), long: true},
		{name: "startup-large", kind: kindStartup, data: at(z.large)},
		{name: "create", data: at(0), rounds: 3, steps: []step{
			{id: "create-16", args: f("create --pods %d --conns 16", z.create), profile: true},
			{id: "create-1", args: f("create --pods 300 --first %d --conns 1", z.create)}}},
		{name: "get", data: at(z.small), rounds: 3, steps: []step{
			{id: "get-16", args: f("get --pods %d --conns 16 --duration %s", z.small, z.get), profile: true},
			{id: "get-16-proto", args: f("get --pods %d --conns 16 --duration %s --proto", z.small, z.get), long: true},
			{id: "get-1", args: f("get --pods %d --conns 1 --duration %s", z.small, z.get)}}},
		{name: "list-tiny", data: at(z.tiny), rounds: 3, long: true, steps: []step{
			{id: "list-tiny", args: f("list --pods %d --duration %s --only %s", z.tiny, z.list, fullLists)}}},
		{name: "list", data: at(z.small), rounds: 3, steps: []step{
			// What is made once for each object version (JSON, compressed forms) is paid for by the first list.
			{id: "list-first", args: f("list --pods %d --duration 1ms --only full-json-rv0", z.small)},
			{id: "list-first-gzip", args: f("list --pods %d --duration 1ms --only full-json-gzip", z.small), long: true},
			{id: "list", args: f("list --pods %d --duration %s --only %s", z.small, z.list, fullLists), profile: true}}},
		{name: "list-large", data: at(z.large), long: true, steps: []step{
			{id: "list-large-first", args: f("list --pods %d --duration 1ms --only full-json-rv0", z.large)},
			{id: "list-large", args: f("list --pods %d --duration %s", z.large, z.list), profile: true}}},
		{name: "fanout", data: at(z.small), steps: []step{
			{id: "fanout", args: fan(z.fan, z.updates, 10, ""), profile: true},
			{id: "fanout-proto", args: fan(z.fan, z.updates, 10, " --proto"), long: true},
			{id: "fanout-http1", args: fan(z.fan, z.updates, 10, " --http1"), long: true},
			{id: "fanout-flat", args: fan(z.fan, z.flat, 0, ""), profile: true},
			{id: "fanout-flat-proto", args: fan(z.fan, z.flat, 0, " --proto"), long: true}}},
		{name: "fanout-many", data: at(z.small), steps: []step{
			{id: "fanout-many", args: fan(z.fanMany, max(z.updates/5, 10), 2, ""), profile: true}}},
		{name: "fanout-few", data: at(z.small), long: true, steps: []step{
			{id: "fanout-few", args: fan(z.fan/10, z.updates*5, 100, "")}}},
		{name: "storm", data: at(z.small), steps: []step{
			{id: "storm", args: storm(z.small, z.stormClients, ""), profile: true},
			{id: "storm-proto", args: storm(z.small, z.stormClients, " --proto"), profile: true}}},
		{name: "storm-nodes-1", data: at(z.small), rounds: 3, steps: []step{
			{id: "storm-nodes-1", args: storm(z.small, z.kubelets[0], " --per-node")}}},
		{name: "storm-nodes-2", data: at(z.small), steps: []step{
			{id: "storm-nodes-2", args: storm(z.small, z.kubelets[1], " --per-node"), profile: true}}},
		// The same kubelets, each with the same two pods, among more pods of others.
		{name: "storm-nodes-large", data: population{z.large, large}, rounds: 3, long: true, steps: []step{
			{id: "storm-nodes-large", args: storm(z.large, z.kubelets[0], f(" --per-node --nodes %d", large))}}},
		sel,
		{name: "slow", data: at(z.small), rounds: 3, steps: []step{
			{id: "slow", args: f("slow --pods %d --watchers %d --stalled 50 --updates %d --rate 25 --settle %s --wait 5s", z.small, z.fan, z.slowUpdates, z.settle)}}},
		{name: "resume", kind: kindResume, data: at(z.small), steps: []step{
			{id: "resume", args: f("resume --pods %d --watchers %d --rate 0", z.small, last)}}},
		{name: "big", data: at(0), steps: []step{
			{id: "big", args: f("big --watchers %d --objects %d --settle %s", z.bigClients, z.bigObjects, z.settle), profile: true}}},
		{name: "informer", kind: kindInformer, data: at(z.large), rounds: 3},
	}
	whole := scenario{name: "cluster", kind: kindCluster, data: population{nodes: z.clusterNodes}}
	for i, pods := range z.clusterPods {
		whole.steps = append(whole.steps, step{id: f("cluster-%d", i+1), profile: true, args: f("cluster --pods %d%s", pods, z.clusterPauses)})
	}
	return append(all, whole)
}
