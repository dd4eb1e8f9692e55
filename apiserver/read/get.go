package read

import (
	"context"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/negotiate"
	"vigil/apiserver/request"
	"vigil/object"
)

// Find returns the object that a GET names, as fresh as the query's resourceVersion asks. The error is a Status.
func Find(ctx context.Context, rawQuery string, res *Resource, info *request.Info) (*object.Version, error) {
	var opts request.ListOptions
	if rawQuery != "" {
		opts.ResourceVersion, _ = request.Param(rawQuery, "resourceVersion")
	}
	f, _, err := freshness(&opts)
	if err != nil {
		return nil, err
	}
	snapshot, err := res.Cache.Read(ctx, f)
	if err != nil {
		return nil, wireError(err, listTooOld)
	}
	key := res.key(info.Namespace, info.Name)
	v, ok := snapshot.Get(key)
	if !ok {
		if err := snapshot.Broken(key); err != nil {
			return nil, wireError(err, listTooOld)
		}
		return nil, apierrors.NewNotFound(res.Kind.GroupResource(), info.Name)
	}
	return v.As(res.Kind.Type)
}

// Get answers a GET of one object. ctx bounds the wait for it.
func Get(ctx context.Context, w http.ResponseWriter, req *http.Request, res *Resource, info *request.Info) error {
	form, err := Accept(req, Endpoint(res.Kind))
	if err != nil {
		return err
	}
	v, err := Find(ctx, req.URL.RawQuery, res, info)
	if err != nil {
		return err
	}
	return WriteObject(w, req, http.StatusOK, form, res.Kind, v)
}

// List answers a GET of a collection. ctx bounds the wait for it, and for room in the budget, where it counts as client's.
func List(ctx context.Context, w http.ResponseWriter, req *http.Request, res *Resource, info *request.Info, opts *request.ListOptions, client string) error {
	start := time.Now()
	form, err := Accept(req, Endpoint(res.Kind))
	if err != nil {
		return err
	}
	cost := costOf(form, req)
	grant, err := cost.acquire(ctx, res, client, cost.streamed(res, opts))
	if err != nil {
		return err
	}
	defer func() { grant.Release() }()
	items, meta, err := Select(ctx, res, info, opts)
	if err != nil {
		return err
	}
	if form.View == negotiate.Metadata {
		items = nil // refused below; no need to look at any
	}
	if cost.whole {
		// How much it is turns out now. Who waits for it must hold nothing meanwhile.
		size := cost.document(items)
		items = nil
		grant.Release()
		if grant, err = cost.acquire(ctx, res, client, size); err != nil {
			return err
		}
		if items, meta, err = Select(ctx, res, info, opts); err != nil {
			return err
		}
	} else {
		grant.Shrink(cost.fixed + pointerBytes*int64(cap(items)))
	}
	if err := writeList(w, req, http.StatusOK, form, res, items, meta, grant); err != nil {
		return err
	}
	res.Metrics.Lists.Inc()
	res.Metrics.Returned.Add(float64(len(items)))
	res.Metrics.ListTime.Observe(time.Since(start).Seconds())
	return nil
}

// Select returns the objects that a list's options select and the list's metadata. The objects are shared: never change
// one. The error is a Status.
func Select(ctx context.Context, res *Resource, info *request.Info, opts *request.ListOptions) ([]*object.Version, object.ListMeta, error) {
	if err := opts.Complete(); err != nil {
		return nil, object.ListMeta{}, err
	}
	sel, err := Selection(res.Kind, info, opts)
	if err != nil {
		return nil, object.ListMeta{}, err
	}
	p, err := plan(ctx, res, opts)
	if err != nil {
		return nil, object.ListMeta{}, err
	}
	found, err := p.snapshot.List(sel, p.from, p.limit)
	if err != nil {
		return nil, object.ListMeta{}, wireError(err, listTooOld)
	}
	meta := object.ListMeta{ResourceVersion: p.snapshot.Revision()}
	if found.Next != "" {
		meta.Continue = token{Revision: p.snapshot.Revision(), Start: found.Next}.encode()
		if found.Remaining >= 0 {
			meta.Remaining = &found.Remaining
		}
	}
	return found.Items, meta, nil
}
