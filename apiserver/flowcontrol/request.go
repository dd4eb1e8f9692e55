package flowcontrol

import (
	"context"
	"net/http"
	"strconv"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	engine "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	estimate "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"vigil/apiserver/authn"
)

// Request is what is known of a request when its turn is decided.
type Request struct {
	Info  request.RequestInfo
	User  *authn.User
	Seats uint64 // how much of the server it takes, 0 is 1

	schema *flowcontrolv1.FlowSchema
	level  *flowcontrolv1.PriorityLevelConfiguration
	uids   [2]string // what the headers refer to
}

// info shows a user to the engine.
type info authn.User

var _ user.Info = (*info)(nil)

func (i *info) GetName() string               { return i.Name }
func (i *info) GetUID() string                { return i.UID }
func (i *info) GetGroups() []string           { return i.Groups }
func (i *info) GetExtra() map[string][]string { return i.Extra }

// Handle calls execute when it is the request's turn, and returns when that has returned. It returns false when the request is
// refused: too many others wait, or it has waited for too long. waiting is called with true and later with false if it waits.
// The headers say by which rules it was decided, and to a refused client when to come back.
func (c *Controller) Handle(ctx context.Context, r *Request, h http.Header, waiting func(bool), execute func()) (served bool) {
	wait := newWaitContext(ctx, r, c.config.QueueWait)
	defer wait.stop()
	digest := engine.RequestDigest{RequestInfo: &r.Info, User: (*info)(r.User)}
	c.engine.Handle(wait, digest,
		func(fs *flowcontrolv1.FlowSchema, pl *flowcontrolv1.PriorityLevelConfiguration, _ string) {
			r.schema, r.level = fs, pl
		},
		func() estimate.WorkEstimate {
			seats := c.bounded(r.Seats, r.level.Name)
			metrics.ObserveWorkEstimatedSeats(r.level.Name, r.schema.Name, int(seats))
			return estimate.WorkEstimate{InitialSeats: seats}
		},
		waiting,
		func() {
			served = true
			r.announce(h)
			execute()
		})
	if served {
		return true
	}
	r.announce(h)
	c.dropped.RecordDroppedRequest(r.level.Name)
	h.Set("Retry-After", strconv.FormatInt(c.dropped.GetRetryAfter(r.level.Name), 10))
	return false
}

var (
	schemaHeader = http.CanonicalHeaderKey(flowcontrolv1.ResponseHeaderMatchedFlowSchemaUID)
	levelHeader  = http.CanonicalHeaderKey(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID)
)

// announce says by UID which rules the request fell under. Names are nobody's business.
func (r *Request) announce(h http.Header) {
	r.uids = [2]string{string(r.schema.UID), string(r.level.UID)}
	h[schemaHeader], h[levelHeader] = r.uids[:1:1], r.uids[1:]
}

// QueueWait is the time that a request may wait of the time it has: a quarter, and a minute at most.
func QueueWait(requestTimeout time.Duration) time.Duration { return min(requestTimeout/4, time.Minute) }
