package write

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds"
	"vigil/object"
	"vigil/store"
	"vigil/store/storetest"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 500, time.UTC)

// world is a writer over a real etcd.
type world struct {
	t     testing.TB
	store *store.Store
	*serving
	*Writer

	denied Access // what Authorize refuses
}

func newWorld(t testing.TB) *world {
	t.Helper()
	s := storetest.New(t)
	h := &world{t: t, store: s}
	h.serving = &serving{
		table: testTable(),
		cache: func(k *kinds.Kind) Cache { return &liveCache{store: s, kind: k} },
		list:  h.listAll,
	}
	h.chain = lifecycle(&h.Writer, h.serving)
	h.Writer = New(Config{
		Store:    s,
		Resource: h.serving.resource,
		Authorize: func(_ context.Context, a Access) error {
			if a.Verb == h.denied.Verb && a.Resource.Resource == h.denied.Resource.Resource && a.Subresource == h.denied.Subresource {
				return apierrors.NewForbidden(a.Resource.GroupResource(), a.Name, errors.New("no"))
			}
			return nil
		},
		Now: func() time.Time { return now },
	})
	h.mustCreate("namespaces", `{"metadata":{"name":"default"}}`)
	return h
}

// listAll answers a deletecollection without reading the query.
func (h *world) listAll(ctx context.Context, r *Request) (*List, error) {
	prefix := h.key(r.Kind, r.Namespace, "")
	found, err := h.store.List(ctx, prefix, store.ListOptions{})
	if err != nil {
		return nil, err
	}
	list := &List{Metadata: object.ListMeta{ResourceVersion: found.Rev}}
	for _, kv := range found.KVs {
		v, err := object.NewVersion(r.Kind.Type, kv.Key, kv.ModRev, kv.Value)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, v)
	}
	return list, nil
}

// kind finds the row of a resource of any group and version ("pods"), or of just one ("events.v1.events.k8s.io").
func (h *world) kind(resource string) *kinds.Kind {
	for _, k := range h.table.All() {
		if k.Resource == resource || qualified(k) == resource {
			return k
		}
	}
	h.t.Fatalf("no row of %s", resource)
	return nil
}

func qualified(k *kinds.Kind) string { return k.Resource + "." + k.GVK.Version + "." + k.GVK.Group }

// request is a JSON request in namespace default.
func (h *world) request(resource, name, subresource, query, body string) *Request {
	r := &Request{Kind: h.kind(resource), Name: name, Subresource: subresource, RawQuery: query, Body: []byte(body), ContentType: "application/json"}
	if r.Kind.Namespaced {
		r.Namespace = "default"
	}
	return r
}

func (h *world) create(resource, query, body string) (*Result, error) {
	return h.Create(context.Background(), h.request(resource, "", "", query, body))
}

func (h *world) update(resource, name, sub, query, body string) (*Result, error) {
	return h.Update(context.Background(), h.request(resource, name, sub, query, body))
}

func (h *world) delete(resource, name, query, body string) (*Result, error) {
	return h.Delete(context.Background(), h.request(resource, name, "", query, body))
}

const (
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
)

func (h *world) patch(resource, name, sub, query, contentType, body string) (*Result, error) {
	r := h.request(resource, name, sub, query, body)
	r.ContentType = contentType
	return h.Patch(context.Background(), r)
}

func (h *world) mustCreate(resource, body string) *object.Version {
	h.t.Helper()
	return h.must(h.create(resource, "", body)).Version
}

// must returns a result that there has to be.
func (h *world) must(r *Result, err error) *Result {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("refused: %v", err)
	}
	return r
}

// stored returns what etcd holds of an object, as JSON fields, and its revision; nil when it holds nothing.
func (h *world) stored(resource, name string) (map[string]any, int64) {
	h.t.Helper()
	k := h.kind(resource)
	kv, err := h.store.Get(context.Background(), h.key(k, "default", name))
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0
	}
	if err != nil {
		h.t.Fatal(err)
	}
	v, err := object.NewVersion(k.Type, kv.Key, kv.ModRev, kv.Value)
	if err != nil {
		h.t.Fatal(err)
	}
	return fieldsOf(h.t, v), kv.ModRev
}

// fieldsOf is an object as its JSON fields.
func fieldsOf(t testing.TB, v *object.Version) map[string]any {
	t.Helper()
	data, err := v.JSON()
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]any{}
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return fields
}

// at is a value in nested JSON fields; nil when it is not there.
func at(fields map[string]any, path ...string) any {
	var value any = fields
	for _, name := range path {
		inner, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = inner[name]
	}
	return value
}

// wantStatus checks an error against the code, reason and message of a Status.
func wantStatus(t testing.TB, err error, code int32, reason metav1.StatusReason, message string) *metav1.Status {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("got %v (%T), want a Status %d %s", err, err, code, reason)
	}
	got := status.Status()
	if got.Code != code || got.Reason != reason || message != "" && got.Message != message {
		t.Errorf("got  %d %s %q\nwant %d %s %q", got.Code, got.Reason, got.Message, code, reason, message)
	}
	return &got
}

// liveCache has what etcd has, unless it was told to lag.
type liveCache struct {
	store *store.Store
	kind  *kinds.Kind
}

func (c *liveCache) Get(key string) (*object.Version, bool) {
	kv, err := c.store.Get(context.Background(), key)
	if err != nil {
		return nil, false
	}
	v, err := object.NewVersion(c.kind.Type, key, kv.ModRev, kv.Value)
	return v, err == nil
}

func (*liveCache) Written(*object.Version) {}

// laggingCache has the objects that it was given and nothing else.
type laggingCache struct {
	mu      sync.Mutex
	objects map[string]*object.Version
}

func (c *laggingCache) Get(key string) (*object.Version, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.objects[key]
	return v, ok
}

func (*laggingCache) Written(*object.Version) {}

// lag puts a cache that only knows the given objects in front of the writer.
func (h *world) lag(objects ...*object.Version) {
	c := &laggingCache{objects: map[string]*object.Version{}}
	for _, v := range objects {
		c.objects[v.Key()] = v
	}
	live := h.cache
	h.change(func() {
		h.cache = func(k *kinds.Kind) Cache {
			if k.GVK.Kind == "Namespace" {
				return live(k)
			}
			return c
		}
	})
	h.t.Cleanup(func() { h.change(func() { h.cache = live }) })
}
