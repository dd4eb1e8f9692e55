package flowcontrol

import (
	"context"
	"net/http"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"

	"vigil/apiserver/authn"
)

// IsExempt says whether a user never waits: the mandatory FlowSchema exempt, which nobody can change for longer than a moment and which
// comes before all others, names system:masters. What follows from that needs no engine, whose many frames cost a third of a get.
func IsExempt(u *authn.User) bool { return u.InGroup(authn.GroupMasters) }

// exempt is the name of both the FlowSchema and its level.
const exempt = flowcontrolv1.FlowSchemaNameExempt

// BeginExempt counts a request of such a user, and says by headers which rules it fell under. The caller ends what it returns.
func (c *Controller) BeginExempt(ctx context.Context, h http.Header) Exempt {
	uids := new([2]string)
	if o, ok, err := c.schemas.objects.GetByKey(exempt); ok && err == nil {
		uids[0] = string(o.(*flowcontrolv1.FlowSchema).UID)
	}
	if o, ok, err := c.levels.objects.GetByKey(exempt); ok && err == nil {
		uids[1] = string(o.(*flowcontrolv1.PriorityLevelConfiguration).UID)
	}
	h[schemaHeader], h[levelHeader] = uids[:1:1], uids[1:]
	metrics.AddDispatch(ctx, exempt, exempt)
	metrics.AddRequestsExecuting(ctx, exempt, exempt, 1)
	metrics.AddSeatConcurrencyInUse(exempt, exempt, 1)
	return Exempt{ctx, time.Now()}
}

// Exempt is a request that is not counted among those that take turns.
type Exempt struct {
	ctx   context.Context
	began time.Time
}

// End is called once, when the request is over.
func (e Exempt) End() {
	metrics.AddRequestsExecuting(e.ctx, exempt, exempt, -1)
	metrics.AddSeatConcurrencyInUse(exempt, exempt, -1)
	metrics.ObserveExecutionDuration(e.ctx, exempt, exempt, time.Since(e.began))
}
