package write

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/kinds"
	"vigil/watchcache"
)

// withWatchCache puts real caches in front of the writer. They lag behind etcd as they do in a server.
func (h *world) withWatchCache() {
	h.t.Helper()
	server := watchcache.NewServer(h.store, watchcache.Config{})
	caches := map[*kinds.Kind]*watchcache.Cache{}
	for _, k := range h.table.All() {
		if k.Path != "" {
			caches[k] = server.Add(watchcache.Resource{Name: k.GroupResource().String(), Prefix: "/registry/" + k.Path + "/", Type: k.Type})
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := server.Run(ctx); err != nil && ctx.Err() == nil {
			h.t.Errorf("watch cache: %v", err)
		}
	}()
	h.t.Cleanup(func() { cancel(); <-ended })
	if err := server.WaitReady(ctx); err != nil {
		h.t.Fatal(err)
	}
	h.change(func() { h.cache = func(k *kinds.Kind) Cache { return caches[k] } })
}

const writers = 100

// together runs fn once for each writer, all at the same time.
func together(fn func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range writers {
		wg.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	wg.Wait()
}

// Patches that name no version are all applied.
func TestConcurrent_Patches(t *testing.T) {
	for _, contentType := range []string{jsonPatch, mergePatch, strategicPatch} {
		t.Run(contentType, func(t *testing.T) {
			h := newWorld(t)
			h.withWatchCache()
			h.mustCreate("configmaps", `{"metadata":{"name":"c"},"data":{"a":"b"}}`)
			together(func(i int) {
				body := fmt.Sprintf(`{"data":{"k%d":"v"}}`, i)
				if contentType == jsonPatch {
					body = fmt.Sprintf(`[{"op":"add","path":"/data/k%d","value":"v"}]`, i)
				}
				if _, err := h.patch("configmaps", "c", "", "", contentType, body); err != nil {
					t.Errorf("patch %d: %v", i, err)
				}
			})
			got, _ := h.stored("configmaps", "c")
			if n := len(at(got, "data").(map[string]any)); n != writers+1 {
				t.Errorf("%d of %d patches are there", n-1, writers)
			}
		})
	}
}

// Of the updates and patches that name the same version exactly one is applied, the others are Conflicts.
func TestConcurrent_SameVersion(t *testing.T) {
	h := newWorld(t)
	h.withWatchCache()
	v := h.mustCreate("configmaps", `{"metadata":{"name":"c"}}`)
	var applied, conflicts atomic.Int32
	var winner atomic.Int64
	together(func(i int) {
		var r *Result
		var err error
		if i%2 == 0 {
			r, err = h.update("configmaps", "c", "", "", fmt.Sprintf(`{"metadata":{"name":"c","resourceVersion":"%d"},"data":{"k":"%d"}}`, v.Revision(), i))
		} else {
			r, err = h.patch("configmaps", "c", "", "", mergePatch, fmt.Sprintf(`{"metadata":{"resourceVersion":"%d"},"data":{"k":"%d"}}`, v.Revision(), i))
		}
		switch {
		case err == nil:
			applied.Add(1)
			winner.Store(r.Version.Revision())
		case apierrors.IsConflict(err):
			conflicts.Add(1)
		default:
			t.Errorf("write %d: %v", i, err)
		}
	})
	if applied.Load() != 1 || conflicts.Load() != writers-1 {
		t.Errorf("%d applied, %d conflicts", applied.Load(), conflicts.Load())
	}
	if _, rev := h.stored("configmaps", "c"); rev != winner.Load() {
		t.Errorf("stored at %d, answered %d", rev, winner.Load())
	}
}

// Counters that read, add one and write with the version they read, again and again, lose nothing.
func TestConcurrent_Counter(t *testing.T) {
	h := newWorld(t)
	h.withWatchCache()
	h.mustCreate("pods", fmt.Sprintf(podBody, `,"annotations":{"n":"0"}`, "a"))
	together(func(i int) {
		for {
			got, rev := h.stored("pods", "p")
			var n int
			if _, err := fmt.Sscan(at(got, "metadata", "annotations", "n").(string), &n); err != nil {
				t.Error(err)
				return
			}
			_, err := h.update("pods", "p", "", "", fmt.Sprintf(podBody, fmt.Sprintf(`,"resourceVersion":"%d","annotations":{"n":"%d"}`, rev, n+1), "a"))
			if err == nil {
				return
			}
			if !apierrors.IsConflict(err) {
				t.Errorf("write %d: %v", i, err)
				return
			}
		}
	})
	if got, _ := h.stored("pods", "p"); at(got, "metadata", "annotations", "n") != fmt.Sprint(writers) {
		t.Errorf("counted %v", at(got, "metadata", "annotations", "n"))
	}
}

// Creates of one name, deletes and creates again: at any time at most one object, and each create or delete that was
// answered with success happened.
func TestConcurrent_CreateDelete(t *testing.T) {
	h := newWorld(t)
	h.withWatchCache()
	var created, deleted atomic.Int32
	together(func(i int) {
		if i%2 == 0 {
			_, err := h.create("configmaps", "", `{"metadata":{"name":"c"}}`)
			if err == nil {
				created.Add(1)
			} else if !apierrors.IsAlreadyExists(err) {
				t.Errorf("create: %v", err)
			}
			return
		}
		_, err := h.delete("configmaps", "c", "", "")
		if err == nil {
			deleted.Add(1)
		} else if !apierrors.IsNotFound(err) {
			t.Errorf("delete: %v", err)
		}
	})
	left := int32(0)
	if got, _ := h.stored("configmaps", "c"); got != nil {
		left = 1
	}
	if created.Load()-deleted.Load() != left {
		t.Errorf("%d created, %d deleted, %d left", created.Load(), deleted.Load(), left)
	}
}

// Deletes of one object: one removes it, the others find nothing.
func TestConcurrent_Deletes(t *testing.T) {
	h := newWorld(t)
	h.withWatchCache()
	h.mustCreate("configmaps", `{"metadata":{"name":"c"}}`)
	var deleted, missing atomic.Int32
	together(func(int) {
		switch _, err := h.delete("configmaps", "c", "", ""); {
		case err == nil:
			deleted.Add(1)
		case apierrors.IsNotFound(err):
			missing.Add(1)
		default:
			t.Error(err)
		}
	})
	if deleted.Load() != 1 || missing.Load() != writers-1 {
		t.Errorf("%d deleted, %d found nothing", deleted.Load(), missing.Load())
	}
}
