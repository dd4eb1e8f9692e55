package cluster

import (
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"vigil/apiserver"
	"vigil/apiserver/nodemetrics"
	"vigil/kinds"
	"vigil/watchcache"
)

var (
	nodeMetrics = metricsv1beta1.SchemeGroupVersion.WithKind("NodeMetrics")
	podMetrics  = metricsv1beta1.SchemeGroupVersion.WithKind("PodMetrics")
)

// usage asks the kubelets that a server reaches.
func usage(server *apiserver.Server, table *kinds.Table, log *slog.Logger) *nodemetrics.Source {
	list := func(resource, namespace, name string) ([]nodemetrics.Thing, error) {
		kind := table.ByResource(corev1.SchemeGroupVersion.WithResource(resource))
		page, err := server.Cache(kind).Snapshot().List(watchcache.Selection{Namespace: namespace, Name: name}, "", 0)
		if err != nil {
			return nil, err
		}
		things := make([]nodemetrics.Thing, 0, len(page.Items))
		for _, v := range page.Items {
			// Nothing of it may keep the object's bytes.
			thing := nodemetrics.Thing{Namespace: strings.Clone(v.Namespace()), Name: strings.Clone(v.Name()), UID: strings.Clone(v.UID())}
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
	return nodemetrics.New(nodemetrics.Config{
		Fetch:  server.Connector().Fetch,
		Nodes:  func(name string) ([]nodemetrics.Thing, error) { return list("nodes", "", name) },
		Pods:   func(namespace, name string) ([]nodemetrics.Thing, error) { return list("pods", namespace, name) },
		Logger: log,
	})
}
