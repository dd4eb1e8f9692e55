package controllers

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/record"

	"vigil/controllers/internal/controllertest"
	"vigil/informer"
)

// What is not run is not followed: a controller that is off has no informers.
func TestControllers_OffHasNoInformers(t *testing.T) {
	env := controllertest.Start(t)
	followed := func(list ...string) []string {
		t.Helper()
		registry := prometheus.NewRegistry()
		factory, err := informer.NewFactory(env.Server, informer.Config{Logger: env.Logger, Registerer: registry})
		if err != nil {
			t.Fatal(err)
		}
		events := record.NewBroadcaster()
		defer events.Shutdown()
		if _, err := New(Config{Server: env.Server, Informers: factory, Events: events, Logger: env.Logger, Controllers: list}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- factory.Run(ctx) }()
		if err := factory.WaitForSync(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		resources := map[string]bool{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				for _, label := range m.GetLabel() {
					if family.GetName() == "informer_syncs_total" && label.GetName() == "resource" && m.GetCounter().GetValue() > 0 {
						resources[label.GetValue()] = true
					}
				}
			}
		}
		return slices.Sorted(maps.Keys(resources))
	}
	for _, c := range []struct {
		list []string
		want []string
	}{
		{[]string{"deployment-controller"}, []string{"deployments", "pods", "replicasets"}},
		{[]string{"clusterrole-aggregation-controller"}, []string{"clusterroles"}},
	} {
		if got := followed(c.list...); !slices.Equal(got, c.want) {
			t.Errorf("%v follow %v, want %v", c.list, got, c.want)
		}
	}
	all := followed("*")
	for _, resource := range []string{"endpoints", "pods", "deployments", "resourcequotas", "volumeattachments"} {
		if !slices.Contains(all, resource) {
			t.Errorf("all controllers do not follow %s: %v", resource, all)
		}
	}
	without := followed("*", "-resourcequota-controller", "-persistentvolume-attach-detach-controller")
	for _, resource := range []string{"resourcequotas", "volumeattachments"} {
		if slices.Contains(without, resource) {
			t.Errorf("%s are followed by a controller that is off: %v", resource, without)
		}
	}
}
