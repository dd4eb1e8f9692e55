package read

import (
	"context"
	"net/http"

	"vigil/apiserver/listmemory"
	"vigil/apiserver/negotiate"
	"vigil/apiserver/request"
	"vigil/apiserver/respond"
	"vigil/object"
)

// What a list under way holds, in bytes.
const (
	pointerBytes = 8        // for each item
	chunkBytes   = 64 << 10 // that object.ListWriter gathers
	socketBytes  = 64 << 10 // in the connection: frames, records, what the kernel has not taken
	packerBytes  = 5 << 18  // a compressor's tables: of tables and metadata lists, which have no shared compressed forms

	// A document for people is held twice, in buffers that have doubled, and JSON is about twice as long as protobuf.
	documentFactor = 8
	rowBytes       = 4 << 10 // of a table, with the object's metadata
)

// cost is what a list in a certain form holds.
type cost struct {
	fixed int64
	whole bool // the document is made before any of it is written
	table bool
}

func costOf(form negotiate.Result, r *http.Request) cost {
	c := cost{fixed: chunkBytes + socketBytes, whole: reformatted(form, r), table: form.View == negotiate.Table}
	if form.View != negotiate.AsIs && respond.AcceptsEncoding(r) != "" {
		c.fixed += packerBytes
	}
	return c
}

// streamed is what a list holds that is written as it is made. It may turn out smaller: who selects is not known yet.
func (c cost) streamed(res *Resource, opts *request.ListOptions) int64 {
	n := int64(res.Cache.Len())
	if opts.Limit > 0 {
		n = min(n, opts.Limit)
	}
	return c.fixed + pointerBytes*n
}

// document is what a list of items holds that is made before it is written.
func (c cost) document(items []*object.Version) int64 {
	n := c.fixed + pointerBytes*int64(len(items))
	for _, v := range items {
		if c.table {
			n += rowBytes
		} else {
			n += documentFactor * int64(v.WireBytes())
		}
	}
	return n
}

// acquire waits for room in the resource's budget. The grant is nil without one.
func (cost) acquire(ctx context.Context, res *Resource, client string, n int64) (*listmemory.Grant, error) {
	if res.Budget == nil {
		return nil, nil
	}
	return res.Budget.Acquire(ctx, client, res.Cache, n)
}
