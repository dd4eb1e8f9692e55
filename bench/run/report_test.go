package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTable_Judges(t *testing.T) {
	results := func(cpu ...float64) (f figures) {
		for _, v := range cpu {
			f = append(f, result{"step": "s", "case": "c", "cpu": v})
		}
		return f
	}
	value := figure("s", "c", "cpu", 1)
	for _, c := range []struct {
		name        string
		row         row
		up, vi      figures
		want        string // in the row
		met, missed int
	}{
		{"less, met", row{"r", "ms", value, less, 5}, results(10), results(2), "5x", 1, 0},
		{"less, missed", row{"r", "ms", value, less, 5}, results(10), results(4), "missed", 0, 1},
		{"less, too little to see", row{"r", "ms", value, less, 5}, results(10), results(0), "met", 1, 0},
		{"more", row{"r", "MB/s", value, more, 3}, results(10), results(31), "3.10x", 1, 0},
		{"at most", row{"r", "us", value, atMost, 15}, results(40), results(15), "met", 1, 0},
		{"at least", row{"r", "deliveries/s", value, atLeast, 150}, results(40), results(149), "missed", 0, 1},
		{"only shown", row{"r", "MB", value, shown, 0}, results(40), results(20), "2x", 0, 0},
		{"median", row{"r", "ms", value, less, 5}, results(10, 1000, 9), results(2, 1, 90), "5x", 1, 0},
		{"upstream failed", row{"r", "ms", value, less, 5}, nil, results(4), "-", 0, 0},
		{"Vigil failed", row{"r", "us", value, atMost, 5}, results(4), nil, "-", 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w bytes.Buffer
			met, missed := table(&w, []row{c.row}, c.up, c.vi)
			if met != c.met || missed != c.missed {
				t.Errorf("met %d, missed %d; want %d, %d", met, missed, c.met, c.missed)
			}
			if !strings.Contains(w.String(), c.want) {
				t.Errorf("no %q in\n%s", c.want, w.String())
			}
		})
	}
}

// Every figure that a row names comes from a step that is in the plan.
func TestRows_HaveSteps(t *testing.T) {
	for name, z := range map[string]sizes{"full": full, "quick": quick} {
		// A server that has measured everything.
		var all figures
		for _, s := range plan(z) {
			ids := []string{s.name}
			for _, st := range s.steps {
				ids = append(ids, st.id)
			}
			for _, id := range ids {
				for _, kind := range []result{{"scenario": "list-concurrent", "case": "full-json-rv0"}, {"scenario": "list-concurrent", "case": "full-proto-rv0"}} {
					kind["step"] = id
					all = append(all, everything(kind))
				}
				for _, kase := range strings.Split(fullLists, ",") {
					all = append(all, everything(result{"step": id, "scenario": "list", "case": kase}))
				}
				for _, scenario := range []string{"create", "status-put", "slow-with", "slow-without", "slow-drop", "resume", "informer-sync", "informer-events", "",
					"cluster-nodes", "cluster-ready", "cluster-idle", "cluster-delete", "cluster-after"} {
					all = append(all, everything(result{"step": id, "scenario": scenario}))
				}
			}
		}
		for _, r := range rows(z) {
			if _, ok := r.value(all); !ok {
				t.Errorf("%s: nothing measures %q", name, r.name)
			}
		}
		for _, s := range scaling(z) {
			for _, p := range s.points {
				if _, ok := p.value(all); !ok {
					t.Errorf("%s: nothing measures %q at %s", name, s.name, p.at)
				}
			}
		}
	}
}

func everything(r result) result {
	for _, figure := range []string{"server_cpu_s_per_list", "mb_s", "peak_rss_growth_mb", "server_cpu_s", "server_cpu_s_per_1M_delivered", "delivered_s", "watchers", "watchers_alive",
		"last_p50_ms", "each_p99_ms", "server_cpu_s_per_1000_updates", "server_cpu_s_per_1000", "etcd_cpu_s_per_1000", "ops_s", "p50_ms", "rss_kb_per_watcher", "rss_mb", "ready_ms",
		"cpu_us_per_event", "heap_bytes_per_object", "cpu_s", "stalled_gone", "terminated_metric", "peak_rss_growth_mb", "server_rss_mb", "all_resumed_s", "relists", "peak_rss_mb", "complete",
		"ready_s", "cpu_ms_per_pod", "all_requests_per_pod", "kb_per_pod", "core_percent", "gone_s", "left_kb_per_pod"} {
		r[figure] = 1.0
	}
	return r
}
