package apiserver

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/apiserver/admission"
	"vigil/apiserver/authz"
	"vigil/apiserver/connect"
	"vigil/apiserver/metrics"
	"vigil/apiserver/respond"
	"vigil/h2"
	"vigil/watchcache"
)

// serveConnection answers a request for a subresource through which bytes flow. It may take as long as it likes: it has no deadline, and
// no place among the requests under way.
func (c *call) serveConnection(rt *route) {
	c.verb = metrics.Connect
	if !c.beginAudit(true) || !c.impersonate() || !c.authorize() {
		return
	}
	verbs := rt.Kind.Connections[c.info.Subresource].Verbs
	switch {
	case !c.placed(rt.Kind):
		c.notFound()
		return
	case !slices.Contains(verbs, c.info.Verb) && (c.req.Method != http.MethodOptions || !slices.Contains(verbs, "update")):
		c.fail(respond.NoMethod())
		return
	}
	c.clearCredentials()
	scope := c.info.Scope()
	running := c.resource.Running(metrics.Connect, scope)
	defer running.Dec()
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	w := &hijacker{recorder: &c.rec}
	over := make(chan struct{})
	defer close(over)
	go func() { // at the end of the server bytes flow no more
		select {
		case <-c.server.draining:
			cancel()
			w.close()
		case <-over:
		}
	}()
	h2.Patient(&c.rec, c.req)
	err := c.server.connector.Serve(w, c.req.WithContext(ctx), &connect.Request{
		Resource: rt.Kind.GroupResource(), Subresource: c.info.Subresource,
		Namespace: c.info.Namespace, Name: c.info.Name, Path: c.info.Rest, Verb: c.info.Verb,
		Admit: func(ctx context.Context, options runtime.Object) error { return c.admitConnect(ctx, rt, options) },
		Authorize: func(ctx context.Context, verb string) error {
			attr := c.attr
			attr.Verb = verb
			allowed, reason, err := c.server.authz.Authorize(ctx, &attr)
			switch {
			case err != nil:
				return authz.Undecided(err)
			case !allowed:
				return authz.Forbidden(&attr, reason)
			}
			return nil
		},
	})
	if err != nil && c.rec.code == 0 && c.req.Context().Err() == nil {
		c.fail(err)
	}
}

// admitConnect asks admission whether options may be used.
func (c *call) admitConnect(ctx context.Context, rt *route, options runtime.Object) error {
	steps := rt.plan.For(c.info.Subresource, admission.Connect)
	if steps == nil {
		return nil
	}
	a := &admission.Attributes{
		Kind: rt.Kind, Subresource: c.info.Subresource, Namespace: c.info.Namespace, Name: c.info.Name,
		Operation: admission.Connect, Object: options, User: c.user,
		Warn: func(string) {}, Annotate: c.record.Annotate,
	}
	err := steps.Mutate(ctx, a)
	if err == nil {
		err = steps.Validate(ctx, a)
	}
	a.End(err == nil)
	return err
}

// clearCredentials takes out of the headers what might tell others how the caller proved who it is: they are passed on.
func (c *call) clearCredentials() {
	proxy := &c.server.config.Authentication.Proxy
	h := c.req.Header
	h.Del("Authorization")
	for _, names := range [][]string{proxy.UsernameHeaders, proxy.UIDHeaders, proxy.GroupHeaders, {"X-Remote-User", "X-Remote-Uid", "X-Remote-Group"}} {
		for _, name := range names {
			h.Del(name)
		}
	}
	for name := range h {
		for _, prefix := range append([]string{"X-Remote-Extra-", "Impersonate-"}, proxy.ExtraPrefixes...) {
			if strings.HasPrefix(strings.ToLower(name), strings.ToLower(prefix)) {
				delete(h, name)
			}
		}
	}
}

// hijacker is a recorder whose connection can be taken over, which is noted as a switch of protocols.
type hijacker struct {
	*recorder

	mu     sync.Mutex
	conn   net.Conn
	closed bool
}

// Hijack implements http.Hijacker. It fails on connections that serve several requests at once, as with HTTP/2.
func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(h.recorder.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.note(http.StatusSwitchingProtocols)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conn = conn
	if h.closed {
		_ = conn.Close()
	}
	return conn, buffered, nil
}

// Flush implements http.Flusher.
func (h *hijacker) Flush() {
	// An error is the client's; whoever writes on hears of it.
	_ = http.NewResponseController(h.recorder).Flush()
}

// close ends a connection that was taken over, now or later.
func (h *hijacker) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	if h.conn != nil {
		_ = h.conn.Close() // it is not needed any more
	}
}

// EndpointSlices are those of a Service, as the cache has them.
func (o objects) EndpointSlices(namespace, service string) ([]*discoveryv1.EndpointSlice, error) {
	slices := o.s.served.Load().stored[discoveryv1.Resource("endpointslices")]
	page, err := slices.Cache.Snapshot().List(watchcache.Selection{
		Namespace: namespace, Labels: labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}),
	}, "", 0)
	if err != nil {
		return nil, err
	}
	list := make([]*discoveryv1.EndpointSlice, 0, len(page.Items))
	for _, v := range page.Items {
		obj, err := v.Decode()
		if err != nil {
			return nil, err
		}
		list = append(list, obj.(*discoveryv1.EndpointSlice))
	}
	return list, nil
}

var _ connect.Objects = objects{}
