package audit

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	upstream "k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
)

// Record is what is known of one request. All methods do nothing on a nil Record, and may be called by several goroutines.
type Record struct {
	auditor     *Auditor
	rule        upstream.RequestAuditConfig
	longRunning bool

	mu      sync.Mutex
	event   auditapi.Event
	started bool // the response has
	ended   bool
}

const maxUserAgent = 1024

func newRecord(a *Auditor, rule upstream.RequestAuditConfig, r *http.Request, id string, received time.Time, attr *authz.Attributes, longRunning bool) *Record {
	rec := &Record{auditor: a, rule: rule, longRunning: longRunning}
	agent := r.UserAgent()
	if len(agent) > maxUserAgent {
		agent = agent[:maxUserAgent] + "...TRUNCATED"
	}
	rec.event = auditapi.Event{
		Level:                    rule.Level,
		AuditID:                  types.UID(id),
		RequestURI:               r.URL.RequestURI(),
		Verb:                     attr.Verb,
		User:                     userInfo(attr.User),
		UserAgent:                agent,
		RequestReceivedTimestamp: metav1.NewMicroTime(received),
	}
	for _, ip := range utilnet.SourceIPs(r) {
		rec.event.SourceIPs = append(rec.event.SourceIPs, ip.String())
	}
	if attr.Resource != "" {
		rec.event.ObjectRef = &auditapi.ObjectReference{
			APIGroup: attr.Group, APIVersion: attr.Version, Resource: attr.Resource, Subresource: attr.Subresource,
			Namespace: attr.Namespace, Name: attr.Name,
		}
	}
	return rec
}

func userInfo(u *authn.User) authnv1.UserInfo {
	info := authnv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
	for k, v := range u.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authnv1.ExtraValue{}
		}
		info.Extra[k] = v
	}
	return info
}

// attributes is a question as upstream's policies take it.
func attributes(a *authz.Attributes) authorizer.Attributes {
	return authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: a.User.Name, UID: a.User.UID, Groups: a.User.Groups, Extra: a.User.Extra},
		Verb: a.Verb, Namespace: a.Namespace, Name: a.Name, APIGroup: a.Group, APIVersion: a.Version, Resource: a.Resource, Subresource: a.Subresource,
		ResourceRequest: a.Resource != "", Path: a.Path,
	}
}

// stage emits the event unless the stage is left out. Once the response is complete nothing more is.
func (r *Record) stage(stage auditapi.Stage, now time.Time) bool {
	if slices.Contains(r.rule.OmitStages, stage) {
		return true
	}
	r.event.Stage, r.event.StageTimestamp = stage, metav1.NewMicroTime(now)
	return r.auditor.emit(&r.event)
}

// Impersonated notes as whom the request is done, and by which permission (empty for the general one).
func (r *Record) Impersonated(as *authn.User, constraint string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	info := userInfo(as)
	r.event.ImpersonatedUser = &info
	if constraint != "" {
		r.event.AuthenticationMetadata = &auditapi.AuthenticationMetadata{ImpersonationConstraint: constraint}
	}
}

// Decided notes what authorization said and why.
func (r *Record) Decided(allowed bool, reason string, err error) {
	switch {
	case r == nil:
		return
	case err != nil:
		r.Annotate("authorization.k8s.io/reason", "internal error")
		return
	case allowed:
		r.Annotate("authorization.k8s.io/decision", "allow")
	default:
		r.Annotate("authorization.k8s.io/decision", "forbid")
	}
	r.Annotate("authorization.k8s.io/reason", reason)
}

// Annotate adds an annotation. The first value for a key stays.
func (r *Record) Annotate(key, value string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.event.Annotations[key]; ok {
		return
	}
	// Events that were emitted before still refer to the old map.
	annotations := maps.Clone(r.event.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	r.event.Annotations = annotations
}

// Request notes the body of a request of a given media type.
func (r *Record) Request(contentType string, body []byte) {
	if r == nil || len(body) == 0 {
		return
	}
	patch := r.event.Verb == "patch"
	if patch && r.rule.Level.Less(auditapi.LevelRequest) {
		return
	}
	object := toJSON(contentType, body)
	if object == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if ref := r.event.ObjectRef; ref != nil && !patch && r.event.Verb != "delete" && r.event.Verb != "deletecollection" {
		named := *ref
		fillReference(&named, object)
		r.event.ObjectRef = &named
	}
	if r.rule.Level.GreaterOrEqual(auditapi.LevelRequest) {
		if r.rule.OmitManagedFields && !patch {
			object = withoutManagedFields(object)
		}
		r.event.RequestObject = unknown(object)
	}
}

// WantsResponse says how many bytes of the response's body Complete needs: none, those of a Status, or all.
func (r *Record) WantsResponse() int {
	switch {
	case r == nil || r.longRunning:
		return 0
	case r.rule.Level.GreaterOrEqual(auditapi.LevelRequestResponse):
		return maxBody
	}
	return maxStatus
}

// Started notes that the response has begun. Only long-running requests have a stage of that.
func (r *Record) Started(code int) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started || r.ended {
		return
	}
	r.started = true
	r.event.ResponseStatus = &metav1.Status{Code: int32(code)}
	if r.longRunning {
		r.stage(auditapi.StageResponseStarted, time.Now())
	}
}

// Response is what is known of an answer.
type Response struct {
	Code        int // 0: none was sent
	ContentType string
	Body        []byte // as far as WantsResponse says
	Cut         bool   // Body is not all of it
}

// Complete notes the end of the request.
func (r *Record) Complete(response Response) {
	if r == nil {
		return
	}
	if r.longRunning {
		r.Started(http.StatusOK) // unless it was noted before
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	switch {
	case response.Code == 0 && !r.longRunning:
		r.event.ResponseStatus = &metav1.Status{Code: http.StatusOK, Status: metav1.StatusSuccess, Message: "Connection closed early"}
	case response.Code == 0: // a watch that was opened, and said so
	default:
		r.event.ResponseStatus = &metav1.Status{Code: int32(response.Code)}
		r.respond(response)
	}
	r.stage(auditapi.StageResponseComplete, time.Now())
}

// respond notes the body of the answer. The lock is held.
func (r *Record) respond(response Response) {
	full := r.rule.Level.GreaterOrEqual(auditapi.LevelRequestResponse)
	if response.Cut {
		if full {
			annotations := maps.Clone(r.event.Annotations)
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations["audit.k8s.io/truncated"] = "true"
			r.event.Annotations = annotations
		}
		return
	}
	if len(response.Body) == 0 || r.event.ObjectRef == nil && response.Code < 400 {
		return
	}
	object := toJSON(response.ContentType, response.Body)
	if object == nil {
		return
	}
	if status := asStatus(object); status != nil {
		status.Code = int32(response.Code)
		status.ListMeta, status.TypeMeta = metav1.ListMeta{}, metav1.TypeMeta{}
		r.event.ResponseStatus = status
	}
	if full {
		if r.rule.OmitManagedFields {
			object = withoutManagedFields(object)
		}
		r.event.ResponseObject = unknown(object)
	}
}

// Panicked notes that the request ended with a panic.
func (r *Record) Panicked(reason any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.event.ResponseStatus = &metav1.Status{
		Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("APIServer panic'd: %v", reason),
	}
	r.stage(auditapi.StagePanic, time.Now())
}

// unauthorized is the answer to a request whose sender could not be found out.
func unauthorized(methods string) *metav1.Status {
	text := "Authentication failed, no credentials provided"
	if methods != "" {
		text = "Authentication failed, attempted: " + methods
	}
	return &metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonUnauthorized, Message: text, Code: http.StatusUnauthorized}
}
