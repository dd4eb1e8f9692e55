package apiserver

import (
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/audit"
	"vigil/apiserver/authz"
	"vigil/apiserver/request"
)

// beginAudit has the request written down if the policy says so. If it must not go on, it has been answered.
func (c *call) beginAudit(longRunning bool) bool {
	if c.server.auditor == nil {
		return true
	}
	c.describe()
	var err error
	if c.record, err = c.server.auditor.Begin(c.req, c.auditID[0], c.began, &c.attr, longRunning); err != nil {
		c.fail(apierrors.NewInternalError(err))
		return false
	}
	if c.record == nil {
		return true
	}
	if c.notice != nil {
		c.record.Annotate(c.notice.AuditKey, c.notice.AuditValue)
	}
	c.rec.copy = &responseCopy{limit: c.record.WantsResponse(), started: c.record.Started}
	if c.record.WantsResponse() > respondInClear {
		c.req.Header.Del("Accept-Encoding") // the copy is to be read
	}
	return true
}

// respondInClear is the size up to which no response is compressed, in bytes.
const respondInClear = 64 << 10

// auditRefused writes down that the caller could not be authenticated.
func (c *call) auditRefused() {
	if c.server.auditor == nil {
		return
	}
	info, err := request.ParsePath(c.req.Method, c.req.URL.Path)
	if err != nil {
		info.Verb = strings.ToLower(c.req.Method)
	}
	c.info = info
	c.describe()
	var methods []string
	if _, _, ok := c.req.BasicAuth(); ok {
		methods = append(methods, "basic")
	}
	if scheme, _, _ := strings.Cut(c.req.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "bearer") {
		methods = append(methods, "bearer")
	}
	if c.req.TLS != nil && len(c.req.TLS.PeerCertificates) > 0 {
		methods = append(methods, "x509")
	}
	c.server.auditor.Refused(c.req, c.auditID[0], c.began, &c.attr, strings.Join(methods, ", "))
	c.info, c.attr = request.Info{}, authz.Attributes{}
}

// auditDecision notes as whom the request is done, and what authorization said.
func (c *call) auditDecision(allowed bool, reason string, err error) {
	if c.record == nil {
		return
	}
	if c.impersonator != nil {
		c.record.Impersonated(c.user, c.constraint)
	}
	c.record.Decided(allowed, reason, err)
}

// auditEnd notes how the request ended: with a panic, or with the response that has been sent.
func (c *call) auditEnd(panicked any) {
	switch {
	case c.record == nil:
	case panicked != nil:
		c.record.Panicked(panicked)
	default:
		h, sent := c.rec.Header(), c.rec.copy
		response := audit.Response{Code: c.rec.code, ContentType: h.Get("Content-Type"), Body: sent.body, Cut: sent.cut || h.Get("Content-Encoding") != ""}
		c.record.Complete(response)
	}
}

// responseCopy keeps the beginning of a response, and tells when it begins.
type responseCopy struct {
	limit   int
	body    []byte
	cut     bool
	started func(code int)
}

func (c *responseCopy) write(p []byte) {
	if c.cut || c.limit == 0 {
		return
	}
	if len(c.body)+len(p) > c.limit {
		c.body, c.cut = nil, true
		return
	}
	c.body = append(c.body, p...)
}

// begin is called with the final status code.
func (c *responseCopy) begin(code int) {
	if code == 0 {
		code = http.StatusOK
	}
	c.started(code)
}
