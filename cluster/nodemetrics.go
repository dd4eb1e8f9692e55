package cluster

import (
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"vigil/apiserver"
	"vigil/apiserver/resourcemetrics"
	"vigil/kinds"
	"vigil/watchcache"
)

var (
	nodeMetrics = metricsv1beta1.SchemeGroupVersion.WithKind("NodeMetrics")
	podMetrics  = metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics")
)

// usage asks the kubelets that a server reaches.
func usage(server *apiserver.Server, table *kinds.Table, log *slog.Logger) *resourcemetrics.Source {
	list := func(resource, namespace, name string) ([]resourcemetrics.Target, error) {
		kind := table.ByResource(corev1.SchemeGroupVersion.WithResource(resource))
		page, err := server.Cache(kind).Snapshot().List(watchcache.Selection{Namespace: namespace, Name: name}, "", 0)
		if err != nil {
			return nil, err
		}
		things := make([]resourcemetrics.Target, 0, len(page.Items))
		for _, v := range page.Items {
			// Nothing of it may keep the object's bytes.
			thing := resourcemetrics.Target{Namespace: strings.Clone(v.Namespace()), Name: strings.Clone(v.Name()), UID: strings.Clone(v.UID())}
			v.EachLabel(func(key, value string) {
				if thing.Labels == nil {
					thing.Labels = map[string]string{}
				}
				thing.Labels[strings.Clone(key)] = strings.Clone(value)
			})
			if node, ok := v.Field("spec.nodeName"); ok {
				thing.Node = strings.Clone(node)
			}
			things = append(things, thing)
		}
		return things, nil
	}
	return resourcemetrics.New(resourcemetrics.Config{
		Fetch:  server.Connector().Fetch,
		Nodes:  func(name string) ([]resourcemetrics.Target, error) { return list("nodes", "", name) },
		Pods:   func(namespace, name string) ([]resourcemetrics.Target, error) { return list("pods", namespace, name) },
		Logger: log,
	})
}
