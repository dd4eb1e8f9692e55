package apiserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/audit"
	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/metrics"
	"vigil/apiserver/request"
	"vigil/apiserver/respond"
	"vigil/internal/panics"
)

// call is one request on its way.
type call struct {
	server *Server
	served *served // when the request began
	rec    recorder
	req    *http.Request
	info   request.Info
	user   *authn.User // as whom the request is done
	began  time.Time
	ctx    context.Context // ends with the request's deadline; the request's own until that is known
	place  *inflight       // taken by admit
	body   body

	record *audit.Record // nil when the request is not written down

	notice *authn.Notice // what is to be said of the caller's credential; nil: nothing
	// impersonator is who sent the request when that is not user; nil when it is. constraint says what it was allowed by.
	impersonator *authn.User
	constraint   string

	auditID [1]string // what the header refers to, so that it is not allocated on its own
	attr    authz.Attributes
	fields  fields.Selector // what a list, watch or deletecollection selects; nil: everything
	labels  labels.Selector

	// Set by the route, for the metrics.
	resource *metrics.Resource
	verb     metrics.Verb
	detached bool // a watch that goes on, and is counted when it ends
}

// maxAuditID is the most bytes of a client's Audit-Id that the server keeps and echoes. Upstream cuts at this length only in the audit event.
const maxAuditID = 64

// noCache is the Cache-Control of everything that does not say otherwise.
var noCache = []string{"no-cache, private"}

// ServeHTTP is the way of a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{server: s, served: s.served.Load(), req: r, ctx: r.Context(), began: time.Now(), resource: s.other, verb: metrics.Other}
	c.rec.ResponseWriter = w
	defer c.finish()

	h := w.Header()
	h["Cache-Control"] = noCache
	if c.auditID[0] = r.Header.Get("Audit-Id"); c.auditID[0] == "" {
		c.auditID[0] = uuid.NewString()
	} else if len(c.auditID[0]) > maxAuditID {
		c.auditID[0] = c.auditID[0][:maxAuditID]
	}
	h["Audit-Id"] = c.auditID[:]
	if s.config.GoawayChance > 0 && r.ProtoMajor == 2 && rand.Float64() < s.config.GoawayChance {
		h.Set("Connection", "close") // a GOAWAY in HTTP/2: what runs goes on
	}

	err := c.authenticate(c.began)
	if err != nil {
		s.log.Debug("the API server refused a request without valid credentials", "error", err, "remote", r.RemoteAddr)
		c.auditRefused()
		respond.Error(&c.rec, r, apierrors.NewUnauthorized("Unauthorized"))
		return
	}

	if c.info, err = request.ParsePath(r.Method, r.URL.Path); err != nil {
		respond.Error(&c.rec, r, apierrors.NewBadRequest(err.Error()))
		return
	}
	if c.info.IsResource() {
		c.serveResource()
	} else {
		c.servePath()
	}
}

// finish turns a panic into a 500 and counts the request.
func (c *call) finish() {
	p := recover()
	c.body.release()
	if !c.detached {
		defer c.auditEnd(p)
	}
	if p != nil {
		c.rec.drop()
		c.resource.Aborted(c.verb, c.info.Scope())
		if p != http.ErrAbortHandler { //nolint:errorlint // the sentinel itself is panicked
			panics.Recovered(c.server.log, panics.Request, p, "method", c.req.Method, "path", respond.Cut(c.req.URL.Path, 1<<10))
			if c.rec.code == 0 {
				respond.Error(&c.rec, c.req, apierrors.NewInternalError(fmt.Errorf("apiserver panic'd on %s %s", c.req.Method, c.req.URL.Path)))
				p = nil
			}
		}
		if p != nil {
			defer panic(http.ErrAbortHandler) // what is on the wire is broken: cut it off
		}
	}
	if c.detached {
		return
	}
	code := c.rec.code
	if code == 0 {
		code = http.StatusOK
	}
	dryRun := c.req.URL.RawQuery != "" && strings.Contains(c.req.URL.RawQuery, "dryRun=All")
	c.resource.Done(c.verb, c.info.Scope(), code, dryRun, time.Since(c.began))
}

// describe fills in what is decided on.
func (c *call) describe() {
	attr := &c.attr
	attr.User, attr.Verb, attr.Path = c.user, c.info.Verb, c.info.Path
	if c.info.IsResource() {
		attr.Group, attr.Version, attr.Resource, attr.Subresource = c.info.Group, c.info.Version, c.info.Resource, c.info.Subresource
		attr.Namespace, attr.Name = c.info.Namespace, c.info.Name
		attr.Fields, attr.Labels = c.fields, c.labels
	}
}

// authorize asks whether the caller may do this; if not it has answered.
func (c *call) authorize() bool {
	c.describe()
	attr := &c.attr
	allowed, reason, err := c.server.authz.Authorize(c.ctx, attr)
	c.auditDecision(allowed, reason, err)
	switch {
	case allowed:
		return true
	case err != nil:
		c.fail(authz.Undecided(err))
	default:
		c.rec.Header().Set("X-Content-Type-Options", "nosniff")
		c.fail(authz.Forbidden(attr, reason))
	}
	return false
}

// places are those that requests like this one take.
func (c *call) places() *inflight {
	switch c.req.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
		return &c.server.writes
	}
	return &c.server.reads
}

// admit takes a place among the requests under way, which the caller gives back. If there is none it has answered.
func (c *call) admit() bool {
	c.place = c.places()
	if !c.place.enter(c.user.InGroup(authn.GroupMasters)) {
		c.server.metrics.Dropped(c.place == &c.server.writes)
		tooMany(&c.rec)
		return false
	}
	return true
}

// deadline bounds the request by the server's limit or the client's shorter one. The error is a 400.
func (c *call) deadline() (cancel context.CancelFunc, err error) {
	limit := c.server.requestTimeout
	if strings.Contains(c.req.URL.RawQuery, "timeout=") {
		if v, ok := request.Param(c.req.URL.RawQuery, "timeout"); ok && v != "" {
			d, err := time.ParseDuration(v)
			if err != nil {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid timeout specified in the request URL - %v", err))
			}
			if d > 0 {
				limit = min(limit, d)
			}
		}
	}
	c.ctx, cancel = context.WithTimeout(c.req.Context(), limit)
	if c.req.ProtoMajor == 1 && c.req.ContentLength != 0 {
		// A body that does not end must not keep its handler; h2 sees to that by itself. A little later than the end of ctx, which
		// says why. Connections without deadlines have no bodies that could not end.
		end, _ := c.ctx.Deadline()
		_ = http.NewResponseController(&c.rec).SetReadDeadline(end.Add(100 * time.Millisecond))
	}
	return cancel, nil
}

// fail answers with the Status of err. What went wrong because the time was up is said so.
func (c *call) fail(err error) {
	if errors.Is(c.ctx.Err(), context.DeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
		err = apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	}
	respond.Error(&c.rec, c.req, err)
}

// notFound is the answer where there is no route: the router of a group version answers with a Status, and where there is no such
// group version the end of upstream's chain of servers does with a text.
func (c *call) notFound() {
	if c.served.versions[schema.GroupVersion{Group: c.info.Group, Version: c.info.Version}] {
		c.fail(respond.NoRoute())
		return
	}
	http.Error(&c.rec, "404 page not found", http.StatusNotFound)
}
