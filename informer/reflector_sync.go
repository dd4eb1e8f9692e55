package informer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"vigil/informer/internal/wire"
)

// pageSize is how many objects one page of a list has, as client-go asks for.
const pageSize = 500

// syncVersion is the resource version to sync from: "" for the newest.
func (r *reflector) syncVersion() string {
	if r.anyVersion {
		return ""
	}
	return string(r.version)
}

// synced puts a complete state into the informer.
func (r *reflector) synced(objects map[string]*Object, version string) {
	r.inf.replace(objects, version)
	r.version = append(r.version[:0], version...)
	r.current, r.anyVersion, r.brokenOff = true, false, 0
	r.syncedAt = time.Now()
	r.metrics.sync()
	r.logger.Debug("the informer has listed its resource", "objects", len(objects), "resourceVersion", version)
}

// streamingList asks for the objects as the beginning of a watch (KEP-3157), puts them into the informer when they are all
// there, and returns the watch to be followed on.
func (r *reflector) streamingList(ctx context.Context, timeout time.Duration) (*watch, error) {
	q := r.inf.resource.query()
	q.Set("watch", "true")
	q.Set("sendInitialEvents", "true")
	q.Set("resourceVersionMatch", "NotOlderThan")
	q.Set("allowWatchBookmarks", "true")
	q.Set("timeoutSeconds", seconds(timeout))
	if v := r.syncVersion(); v != "" {
		q.Set("resourceVersion", v)
	}
	w, err := r.open(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("streaming list of %s: %w", r.inf.resource, err)
	}
	objects := make(map[string]*Object, r.inf.indexer.Len())
	var ev wire.Event
	for {
		if err = w.Next(&ev); err != nil {
			if !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrTooLarge) {
				err = fmt.Errorf("%w: %w", errBrokenOff, err)
			}
			break
		}
		switch ev.Type {
		case wire.Added, wire.Modified:
			err = r.collect(objects, ev.Object, &ev.Meta, w.Encoding())
		case wire.Deleted:
			delete(objects, keyOf(string(ev.Meta.Namespace.Of(ev.Object)), string(ev.Meta.Name.Of(ev.Object))))
		case wire.Bookmark:
			if ev.Meta.InitialEventsEnd {
				r.synced(objects, string(ev.Meta.ResourceVersion.Of(ev.Object)))
				return w, nil
			}
		case wire.Error:
			err = eventError(w.Encoding(), ev.Object)
		}
		if err != nil {
			break
		}
	}
	w.Close()
	return nil, fmt.Errorf("streaming list of %s: %w", r.inf.resource, err)
}

// list asks for the objects page by page. The first list ever takes any state that the server has at hand.
func (r *reflector) list(ctx context.Context) error {
	version := r.syncVersion()
	if version == "" && !r.anyVersion {
		version = "0"
	}
	objects, got, err := r.pages(ctx, version, version == "" || version == "0")
	if err != nil && (expired(err) || versionTooLarge(err)) {
		// The snapshot was gone before its last page, or the version was refused: all at once, from the newest.
		objects, got, err = r.pages(ctx, "", false)
	}
	if err != nil {
		return fmt.Errorf("list %s: %w", r.inf.resource, err)
	}
	r.synced(objects, got)
	return nil
}

func (r *reflector) pages(ctx context.Context, version string, paged bool) (map[string]*Object, string, error) {
	q := r.inf.resource.query()
	if version != "" {
		q.Set("resourceVersion", version)
	}
	if paged {
		q.Set("limit", strconv.Itoa(pageSize))
	}
	objects := make(map[string]*Object, r.inf.indexer.Len())
	for {
		meta, err := r.page(ctx, q, objects)
		if err != nil {
			return nil, "", err
		}
		if meta.ResourceVersion == "" {
			return nil, "", fmt.Errorf("%w: a list without resourceVersion", wire.ErrMalformed)
		}
		if meta.Continue == "" {
			return objects, meta.ResourceVersion, nil
		}
		q.Del("resourceVersion")
		q.Set("continue", meta.Continue)
	}
}

func (r *reflector) page(ctx context.Context, q map[string][]string, objects map[string]*Object) (wire.ListMeta, error) {
	r.metrics.list()
	body, e, err := r.client.get(ctx, r.inf.resource.path(), q, r.inf.resource.accept(false))
	if err != nil {
		return wire.ListMeta{}, err
	}
	defer body.Close()
	return wire.ReadList(body, e, func(item wire.Item) error {
		return r.collect(objects, item.Object, &item.Meta, e)
	})
}

// collect adds one object to a list. An object that the informer has in the same version is not copied again.
func (r *reflector) collect(objects map[string]*Object, b []byte, m *wire.Meta, e wire.Encoding) error {
	old, o, err := r.inf.make(b, m, e)
	if err != nil {
		return err
	}
	if o == nil {
		o = old
	}
	objects[o.key] = o
	return nil
}

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }
