package apiserver

import (
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/admission"
	"vigil/apiserver/audit"
	"vigil/apiserver/metrics"
	"vigil/apiserver/read"
	"vigil/apiserver/request"
	"vigil/apiserver/respond"
	"vigil/apiserver/write"
	"vigil/kinds"
)

// routeKey finds a route by what the path says.
type routeKey struct{ group, version, resource string }

// route is one row that is served, with all that is derived from it.
type route struct {
	read.Resource
	writes *write.Resource
	plan   *admission.Plan
	stored *admission.Stored // of the stored row, as admission plug-ins read it; nil when it is not stored
	verbs  []string
	subs   map[string]*subroute

	connections map[string]*metrics.Resource // of the subresources through which bytes flow
}

// subroute is one subresource.
type subroute struct {
	*kinds.Subresource
	metrics *metrics.Resource
}

// addSubresources makes the routes of subresources.
func (rt *route) addSubresources(m *metrics.Metrics) {
	k := rt.Kind
	rt.subs, rt.connections = map[string]*subroute{}, map[string]*metrics.Resource{}
	for name := range k.Connections {
		rt.connections[name] = m.Resource(k.GVK.Group, k.GVK.Version, k.Resource, name)
	}
	for i := range k.Subresources {
		sub := &k.Subresources[i]
		rt.subs[sub.Name] = &subroute{Subresource: sub, metrics: m.Resource(k.GVK.Group, k.GVK.Version, k.Resource, sub.Name)}
	}
}

// serveResource answers a request for an API resource.
func (c *call) serveResource() {
	rt := c.served.routes[routeKey{c.info.Group, c.info.Version, c.info.Resource}]
	var opts request.ListOptions
	if c.info.Verb == "list" || c.info.Verb == "watch" || c.info.Verb == "deletecollection" {
		var err error
		if opts, err = request.ParseList(c.req.URL.RawQuery); err != nil {
			if c.beginAudit(false) {
				c.fail(err)
			}
			return
		}
		if c.info.Legacy {
			opts.Watch = true
		}
		c.info.ApplyList(&opts)
		c.fields, c.labels = opts.FieldSelector, opts.LabelSelector
	}
	if rt != nil {
		c.resource, c.verb = rt.Metrics, metricVerb(c.info.Verb, c.req)
		if sub := rt.subs[c.info.Subresource]; sub != nil {
			c.resource = sub.metrics
		}
		if _, ok := rt.Kind.Connections[c.info.Subresource]; ok {
			c.resource = rt.connections[c.info.Subresource]
			c.serveConnection(rt)
			return
		}
	}
	if !c.beginAudit(c.info.Verb == "watch") || !c.impersonate() {
		return
	}
	if c.info.Verb == "watch" {
		c.watchInTurn(seats(rt, &c.info, &opts), func() {
			if c.authorize() {
				c.warnDeprecated(rt)
				c.serveWatch(rt, &opts)
			}
		})
		return
	}
	if !c.takeBody() {
		return
	}
	inTurn := c.inTurn
	if c.info.Verb == "list" || c.info.Verb == "deletecollection" {
		inTurn = c.listInTurn
	}
	inTurn(seats(rt, &c.info, &opts), func() { c.serveShort(rt, &opts) })
}

// serveShort answers a request for an API resource that is not a watch.
func (c *call) serveShort(rt *route, opts *request.ListOptions) {
	if !c.authorize() {
		return
	}
	if rt == nil || !c.placed(rt.Kind) {
		c.notFound()
		return
	}
	c.warnDeprecated(rt)
	cancel, err := c.deadline()
	if err != nil {
		c.fail(err)
		return
	}
	defer cancel()
	if c.info.Subresource != "" {
		err = c.serveSubresource(rt)
	} else {
		err = c.serveObject(rt, opts)
	}
	if err != nil {
		c.fail(err)
	}
}

// warnDeprecated tells clients of a deprecated kind so, whatever they do with it.
func (c *call) warnDeprecated(rt *route) {
	if rt != nil && rt.Kind.Deprecated != "" {
		respond.Warning(&c.rec, []string{rt.Kind.Deprecated})
	}
}

// placed says whether the path has a namespace just where the kind has one.
func (c *call) placed(k *kinds.Kind) bool {
	if !k.Namespaced {
		return !c.info.InNamespace
	}
	// Collections can be read across namespaces. The name of one comes from a selector.
	collection := c.info.Verb == "list" || (c.info.Verb == "watch" && !c.info.Legacy)
	return c.info.InNamespace || collection || c.info.Name == ""
}

func (c *call) serveWatch(rt *route, opts *request.ListOptions) {
	switch {
	case rt == nil || !c.placed(rt.Kind):
		c.notFound()
		return
	case c.req.Method != http.MethodGet && c.req.Method != http.MethodHead, !slices.Contains(rt.verbs, "watch") && !slices.Contains(rt.verbs, "list"):
		c.fail(respond.NoMethod())
		return
	case !slices.Contains(rt.verbs, "watch"): // a list that cannot go on
		c.fail(apierrors.NewMethodNotSupported(rt.Kind.GroupResource(), "watch"))
		return
	}
	running, scope, began, record := rt.Metrics.Running(metrics.Watch, c.info.Scope()), c.info.Scope(), c.began, c.record
	over := func() {
		running.Dec()
		record.Complete(audit.Response{Code: http.StatusOK})
		rt.Metrics.Done(metrics.Watch, scope, http.StatusOK, false, time.Since(began))
	}
	detached, err := c.server.reader.Watch(&c.rec, c.req, &rt.Resource, &c.info, opts, over)
	if detached {
		record.Started(http.StatusOK)
		c.detached = true
		return
	}
	running.Dec()
	if err != nil {
		c.fail(err)
	}
}

// serveObject answers requests for objects and collections.
func (c *call) serveObject(rt *route, opts *request.ListOptions) error {
	verb := c.info.Verb
	collectionOf := rt.Kind.Namespaced && !c.info.InNamespace // of all namespaces: to be read only
	switch {
	case !slices.Contains(rt.verbs, verb),
		verb == "create" && c.info.Name != "",
		(verb == "update" || verb == "patch") && c.info.Name == "",
		collectionOf && verb != "list":
		return respond.NoMethod()
	}
	if rt.Kind.Unstored && verb != "create" {
		return c.serveAnswer(rt, opts)
	}
	switch verb {
	case "get":
		return read.Get(c.ctx, &c.rec, c.req, &rt.Resource, &c.info)
	case "list":
		return read.List(c.ctx, &c.rec, c.req, &rt.Resource, &c.info, opts, c.user.Name)
	}
	return c.serveWrite(rt)
}

// serveSubresource answers requests for a subresource of one object.
func (c *call) serveSubresource(rt *route) error {
	sub := rt.subs[c.info.Subresource]
	if sub == nil || c.info.Rest != "" && c.info.Rest != "/" {
		c.notFound()
		return nil
	}
	if !slices.Contains(sub.Verbs, c.info.Verb) {
		return respond.NoMethod()
	}
	switch {
	case c.info.Verb != "get":
		return c.serveWrite(rt)
	case sub.View == nil:
		return read.Get(c.ctx, &c.rec, c.req, &rt.Resource, &c.info)
	}
	form, err := read.Accept(c.req, read.Endpoint(rt.Kind))
	if err != nil {
		return err
	}
	v, err := read.Find(c.ctx, c.req.URL.RawQuery, &rt.Resource, &c.info)
	if err != nil {
		return err
	}
	obj, err := v.Decode()
	if err != nil {
		return err
	}
	view, err := sub.View(obj.(kinds.Object))
	if err != nil {
		return err
	}
	view.GetObjectKind().SetGroupVersionKind(sub.GVK)
	return read.WriteView(&c.rec, c.req, http.StatusOK, form, view)
}

// serveWrite reads the body, has the writer do the write, and renders what comes out.
func (c *call) serveWrite(rt *route) error {
	form, err := read.Accept(c.req, read.Endpoint(rt.Kind))
	if err != nil {
		return err
	}
	if c.body.read(c.req, maxBody+1); c.body.err != nil {
		return c.body.err
	}
	c.record.Request(c.req.Header.Get("Content-Type"), c.body.bytes())
	req := &write.Request{
		Kind:        rt.Kind,
		Resource:    rt.writes,
		Namespace:   c.info.Namespace,
		Name:        c.info.Name,
		Subresource: c.info.Subresource,
		ContentType: c.req.Header.Get("Content-Type"),
		Body:        c.body.bytes(),
		RawQuery:    c.req.URL.RawQuery,
		User:        c.user,
		UserAgent:   c.req.UserAgent(),
	}
	if c.record != nil {
		req.Annotate = c.record.Annotate
	}
	if !rt.Kind.Namespaced {
		req.Namespace = ""
	}
	do := c.server.writer.Create
	switch c.info.Verb {
	case "update":
		do = c.server.writer.Update
	case "patch":
		do = c.server.writer.Patch
	case "delete":
		do = c.server.writer.Delete
	case "deletecollection":
		do = c.server.writer.DeleteCollection
	}
	res, err := do(c.ctx, req)
	if err != nil {
		return err
	}
	respond.Warning(&c.rec, res.Warnings)
	switch {
	case res.List != nil:
		return read.WriteList(&c.rec, c.req, res.Code, form, &rt.Resource, res.List.Items, res.List.Metadata)
	case res.Version != nil:
		return read.WriteObject(&c.rec, c.req, res.Code, form, rt.Kind, res.Version)
	default:
		return read.WriteView(&c.rec, c.req, res.Code, form, res.Object)
	}
}

// metricVerb names a verb as metrics do.
func metricVerb(verb string, r *http.Request) metrics.Verb {
	switch verb {
	case "get":
		return metrics.Get
	case "list":
		return metrics.List
	case "watch":
		return metrics.Watch
	case "create":
		return metrics.Post
	case "update":
		return metrics.Put
	case "patch":
		if r.Header.Get("Content-Type") == "application/apply-patch+yaml" {
			return metrics.Apply
		}
		return metrics.Patch
	case "delete":
		return metrics.Delete
	case "deletecollection":
		return metrics.DeleteCollection
	}
	return metrics.Other
}
