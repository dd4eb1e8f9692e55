package informer

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"vigil/informer/internal/wire"
)

// watch is an open watch stream.
type watch struct {
	*wire.Stream
	io.Closer
}

func (r *reflector) open(ctx context.Context, q url.Values) (*watch, error) {
	r.metrics.watch()
	body, e, err := r.client.get(ctx, r.inf.resource.path(), q, r.inf.resource.accept(true))
	if err != nil {
		return nil, err
	}
	return &watch{wire.NewStream(body, e), body}, nil
}

// resume opens a watch from the last version.
func (r *reflector) resume(ctx context.Context, timeout time.Duration) (*watch, error) {
	q := r.inf.resource.query()
	q.Set("watch", "true")
	q.Set("allowWatchBookmarks", "true")
	q.Set("resourceVersion", string(r.version))
	q.Set("timeoutSeconds", seconds(timeout))
	w, err := r.open(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", r.inf.resource, err)
	}
	return w, nil
}

// follow takes in events until the stream ends, and says how many there were (bookmarks included). The error is never nil;
// it is io.EOF for an orderly end.
func (r *reflector) follow(w *watch) (events int, err error) {
	defer r.inf.flush()
	var ev wire.Event
	for ; ; events++ {
		if !w.Ready() {
			r.inf.flush()
		}
		if err := w.Next(&ev); err != nil {
			return events, err
		}
		r.metrics.event(ev.Type)
		version := ev.Meta.ResourceVersion.Of(ev.Object)
		switch ev.Type {
		case wire.Added, wire.Modified, wire.Deleted:
			if err := r.inf.apply(&ev, w.Encoding()); err != nil {
				return events, fmt.Errorf("watch %s: %w", r.inf.resource, err)
			}
		case wire.Bookmark:
			if len(version) == 0 {
				continue
			}
			if older(version, r.version) {
				return events, fmt.Errorf("watch %s: %w: %s after %s", r.inf.resource, errTimeTravel, version, r.version)
			}
			r.inf.bookmark(version)
		case wire.Error:
			return events, fmt.Errorf("watch %s: %w", r.inf.resource, eventError(w.Encoding(), ev.Object))
		default:
			continue // a type of event that is newer than this program
		}
		r.version = append(r.version[:0], version...)
	}
}
