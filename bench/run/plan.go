package main

import "fmt"

// population is what etcd holds before the server starts: pods spread over nodes.
type population struct{ pods, nodes int }

// step is one call of the load generator.
type step struct {
	id      string // names its results in the report
	args    string
	profile bool // with PROFILE set, take a CPU profile of the server meanwhile
}

// scenario is what one server, started on a fresh copy of the population, is put through.
type scenario struct {
	name  string
	data  population
	steps []step
	// kind: "" for steps, or one of the special ones below, which the load generator cannot do alone.
	kind string
}

const (
	kindStartup  = "startup"  // start it several times, memory after settling
	kindResume   = "resume"   // restart the server under the load generator
	kindInformer = "informer" // client-go's informer and Vigil's, each in a process of its own
)

// sizes are what QUICK changes.
type sizes struct {
	small, large, tiny    int // pods
	create                int
	list, get             string // durations
	stormClients          int
	kubelets              []int
	fan, fanMany, updates int
	flat                  int
	selective             []int
	slowUpdates           int
	bigClients, bigCount  int
	bigClientsPeer        int
	informerEvents        int
}

var (
	full = sizes{
		small: 10000, large: 50000, tiny: 1000, create: 9000, list: "2s", get: "5s", stormClients: 50, kubelets: []int{1000, 5000},
		fan: 1000, fanMany: 5000, updates: 300, flat: 400, selective: []int{0, 1000, 5000}, slowUpdates: 1200,
		bigClients: 1024, bigCount: 400, bigClientsPeer: 16, informerEvents: 200000,
	}
	quick = sizes{
		small: 5000, large: 10000, tiny: 1000, create: 2000, list: "700ms", get: "2s", stormClients: 10, kubelets: []int{500, 2000},
		fan: 500, fanMany: 2000, updates: 60, flat: 150, selective: []int{0, 1000}, slowUpdates: 200,
		bigClients: 64, bigCount: 20, bigClientsPeer: 16, informerEvents: 50000,
	}
)

const nodes = 5000

// plan is every scenario in the order in which they are run.
func plan(isQuick bool) []scenario {
	z := full
	if isQuick {
		z = quick
	}
	at := func(n int) population { return population{n, nodes} }
	f := fmt.Sprintf
	p := []scenario{
		{name: "startup", kind: kindStartup, data: at(0)},
		{name: "startup-small", kind: kindStartup, data: at(z.small)},
		{name: "startup-large", kind: kindStartup, data: at(z.large)},
		{name: "create", data: at(0), steps: []step{
			{id: "create-16", args: f("create --pods %d --conns 16", z.create), profile: true},
			{id: "get-16", args: f("get --pods %d --conns 16 --duration %s", z.create, z.get), profile: true},
			{id: "get-16-proto", args: f("get --pods %d --conns 16 --duration %s --proto", z.create, z.get)},
			{id: "get-1", args: f("get --pods %d --conns 1 --duration %s", z.create, z.get)},
			{id: "create-1", args: f("create --pods 500 --first %d --conns 1", z.create)},
		}},
		{name: "list-tiny", data: at(z.tiny), steps: []step{
			{id: "list-tiny", args: f("list --pods %d --duration %s --only full-json-rv0,full-proto-rv0,full-json-gzip,label-1pct-json,field-node-json,namespace-json,paged-500-json", z.tiny, z.list)}}},
		{name: "list", data: at(z.small), steps: []step{
			{id: "list-profile", args: f("list --pods %d --duration %s --only full-json-rv0,full-json", z.small, z.list), profile: true},
			{id: "list", args: f("list --pods %d --duration %s", z.small, z.list)}}},
		{name: "list-large", data: at(z.large), steps: []step{
			{id: "list-large", args: f("list --pods %d --duration %s", z.large, z.list)}}},
		{name: "fanout", data: at(z.small), steps: []step{
			{id: "fanout", args: f("fanout --pods %d --watchers %d --updates %d --rate 10", z.small, z.fan, z.updates), profile: true},
			{id: "fanout-proto", args: f("fanout --pods %d --watchers %d --updates %d --rate 10 --proto", z.small, z.fan, z.updates)},
			{id: "fanout-http1", args: f("fanout --pods %d --watchers %d --updates %d --rate 10 --http1", z.small, z.fan, z.updates)},
			{id: "fanout-flat", args: f("fanout --pods %d --watchers %d --updates %d --rate 0", z.small, z.fan, z.flat), profile: true},
			{id: "fanout-flat-proto", args: f("fanout --pods %d --watchers %d --updates %d --rate 0 --proto", z.small, z.fan, z.flat)}}},
		{name: "fanout-many", data: at(z.small), steps: []step{
			{id: "fanout-many", args: f("fanout --pods %d --watchers %d --updates %d --rate 2", z.small, z.fanMany, z.updates/5), profile: true}}},
		{name: "fanout-few", data: at(z.small), steps: []step{
			{id: "fanout-few", args: f("fanout --pods %d --watchers %d --updates %d --rate 100", z.small, z.fan/10, z.updates*5)}}},
		{name: "storm", data: at(z.small), steps: []step{
			{id: "storm", args: f("storm --pods %d --watchers %d", z.small, z.stormClients), profile: true},
			{id: "storm-proto", args: f("storm --pods %d --watchers %d --proto", z.small, z.stormClients), profile: true}}},
	}
	for i, n := range z.kubelets {
		p = append(p, scenario{name: f("storm-nodes-%d", i+1), data: at(z.small), steps: []step{
			{id: f("storm-nodes-%d", i+1), args: f("storm --pods %d --watchers %d --per-node", z.small, n), profile: true}}})
	}
	// The same kubelets, each with the same two pods, among more pods of others.
	p = append(p, scenario{name: "storm-nodes-large", data: population{z.large, nodes * z.large / z.small}, steps: []step{
		{id: "storm-nodes-large", args: f("storm --pods %d --nodes %d --watchers %d --per-node", z.large, nodes*z.large/z.small, z.kubelets[0])}}})
	sel := scenario{name: "selective", data: at(z.small)}
	for i, n := range z.selective {
		updates, rate := z.updates*5, 100
		sel.steps = append(sel.steps, step{id: f("selective-%d", i), args: f("selective --pods %d --watchers %d --updates %d --rate %d", z.small, n, updates, rate), profile: i == len(z.selective)-1})
	}
	return append(p, sel,
		scenario{name: "slow", data: at(z.small), steps: []step{
			{id: "slow", args: f("slow --pods %d --watchers %d --stalled 50 --updates %d --rate 20", z.small, z.fan, z.slowUpdates)}}},
		scenario{name: "resume", kind: kindResume, data: at(z.small), steps: []step{
			{id: "resume", args: f("resume --pods %d --watchers %d --updates 500 --rate 200", z.small, z.kubelets[len(z.kubelets)-1])}}},
		scenario{name: "big", data: at(0), steps: []step{
			{id: "big", args: f("big --watchers %d --objects %d", z.bigClients, z.bigCount), profile: true}}},
		scenario{name: "informer", kind: kindInformer, data: at(z.large)},
	)
}
