package read

import (
	"context"
	"errors"
	"math"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/request"
	"vigil/watchcache"
)

// freshness is what a resourceVersion asks of a get, or of a list with the given options. The error is a 400.
func freshness(o *request.ListOptions) (f watchcache.Freshness, whole bool, err error) {
	f, whole, err = watchcache.ListFreshness(o.ResourceVersion, o.ResourceVersionMatch, o.Limit)
	if err != nil {
		return f, false, apierrors.NewBadRequest(err.Error())
	}
	return f, whole, nil
}

// page is where a list is read: a snapshot, the first key and the most items.
type page struct {
	snapshot *watchcache.Snapshot
	from     string // relative key, inclusive; "" is the beginning
	limit    int    // 0: no limit
}

// plan chooses the page that a list's options ask for, by the table of docs/list-watch.md section 4.
func plan(ctx context.Context, res *Resource, opts *request.ListOptions) (page, error) {
	p := page{limit: int(min(opts.Limit, math.MaxInt32))}
	if opts.Continue != "" {
		return planContinue(ctx, res, opts, p)
	}
	f, whole, err := freshness(opts)
	if err != nil {
		return p, err
	}
	if whole {
		p.limit = 0
	}
	if p.snapshot, err = res.Cache.Read(ctx, f); err != nil {
		return p, wireError(err, listTooOld)
	}
	return p, nil
}

func planContinue(ctx context.Context, res *Resource, opts *request.ListOptions, p page) (page, error) {
	if rv := opts.ResourceVersion; rv != "" && rv != "0" {
		return p, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	t, err := decodeToken(opts.Continue)
	if err != nil {
		return p, err
	}
	p.from = t.Start
	if p.snapshot, err = res.Cache.Read(ctx, watchcache.ContinueFreshness(t.Revision)); err != nil {
		return p, continueError(err, t)
	}
	return p, nil
}

// continueError is wireError for a page: when its snapshot is gone, the client gets a token for an inconsistent rest.
func continueError(err error, t token) error {
	status := wireError(err, continueTooOld)
	if s, ok := status.(*apierrors.StatusError); ok && errors.Is(err, watchcache.ErrExpired) {
		s.ErrStatus.Continue = token{Revision: newest, Start: t.Start}.encode()
	}
	return status
}
