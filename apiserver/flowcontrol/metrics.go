package flowcontrol

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// register makes the engine's metrics, which are the process's, exist. They belong to a registry of the library.
var register = sync.OnceFunc(metrics.Register)

// Metrics are the engine's, apiserver_flowcontrol_*, out of the library's registry, which has others beside.
var Metrics prometheus.Gatherer = prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return nil, err
	}
	kept := families[:0]
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "apiserver_flowcontrol_") {
			kept = append(kept, f)
		}
	}
	return kept, nil
})
