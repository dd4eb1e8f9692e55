package cluster

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"

	"vigil/apiserver"
	"vigil/apiserver/componentstatus"
	"vigil/kinds"
	"vigil/store"
)

var componentStatus = corev1.SchemeGroupVersion.WithKind("ComponentStatus")

// componentStatuses asks the components of this machine, and etcd through the server's own connection.
func (c *APIServerConfig) componentStatuses(db *store.Store) apiserver.Answer {
	components := []componentstatus.Component{
		componentstatus.Port("controller-manager", cmp.Or(c.ControllerManagerPort, ControllerManagerPort)),
		componentstatus.Port("scheduler", cmp.Or(c.SchedulerPort, SchedulerPort)),
		{Name: "etcd-0", Ask: func(ctx context.Context) (string, error) {
			if err := db.Health(ctx); err != nil {
				return "", err
			}
			return "ok", nil
		}},
	}
	return func(ctx context.Context, _, _ string) []kinds.Object { return componentstatus.Ask(ctx, components) }
}
