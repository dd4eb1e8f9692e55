package apiserver

import (
	"context"

	"vigil/apiserver/read"
	"vigil/apiserver/request"
	"vigil/apiserver/write"
)

// listForDelete selects what a deletecollection deletes: what a list with the same query shows.
func (rt *route) listForDelete(ctx context.Context, r *write.Request) (*write.List, error) {
	opts, err := request.ParseList(r.RawQuery)
	if err != nil {
		return nil, err
	}
	info := request.Info{Namespace: r.Namespace}
	items, meta, err := read.Select(ctx, &rt.Resource, &info, &opts)
	if err != nil {
		return nil, err
	}
	return &write.List{Items: items, Metadata: meta}, nil
}
