package write

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/kinds"
)

// tally counts how a hook is called.
type tally struct{ prepared, committed, rolledBack, deleted int }

func (c *tally) hook() Hook {
	return Hook{
		Prepare: func(_ context.Context, obj, old kinds.Object) (commit, rollback func(), err error) {
			if obj.GetLabels()["refuse"] != "" {
				return nil, nil, apierrors.NewInternalError(errors.New("refused"))
			}
			c.prepared++
			labels := map[string]string{"from": "create"}
			if old != nil {
				labels["from"] = "update of " + old.GetLabels()["from"]
				labels["from"] = labels["from"][:6]
			}
			obj.SetLabels(labels)
			return func() { c.committed++ }, func() { c.rolledBack++ }, nil
		},
		Deleted: func(context.Context, kinds.Object) { c.deleted++ },
	}
}

func TestHook(t *testing.T) {
	h := newWorld(t)
	var c tally
	h.hooks = map[schema.GroupResource]Hook{{Resource: "configmaps"}: c.hook()}
	check := func(what string, want tally) {
		t.Helper()
		if c != want {
			t.Errorf("%s: %+v, want %+v", what, c, want)
		}
		c = tally{}
	}

	v := h.mustCreate("configmaps", `{"metadata":{"name":"c","finalizers":["example.com/x"]}}`)
	if at(fieldsOf(t, v), "metadata", "labels", "from") != "create" {
		t.Errorf("got %v", fieldsOf(t, v))
	}
	check("create", tally{prepared: 1, committed: 1})

	for _, body := range []string{`{"metadata":{"name":"c"}}`, `{"metadata":{"name":"x"},"data":{"bad":""}}`} {
		_, err := h.create("configmaps", "", body)
		if err == nil {
			t.Errorf("%s was created", body)
		}
		check(body, tally{prepared: 1, rolledBack: 1})
	}
	_, err := h.create("configmaps", "", `{"metadata":{"name":"x","labels":{"refuse":"yes"}}}`)
	wantStatus(t, err, 500, metav1.StatusReasonInternalError, "Internal error occurred: refused")
	check("refused", tally{})

	h.must(h.create("configmaps", "dryRun=All", `{"metadata":{"name":"x"}}`))
	check("dry run", tally{prepared: 1, rolledBack: 1})

	body := `{"metadata":{"name":"c","finalizers":["example.com/x"]},"data":{"a":"b"}}`
	h.must(h.update("configmaps", "c", "", "dryRun=All", body))
	check("dry run of an update", tally{prepared: 1, rolledBack: 1})
	h.must(h.update("configmaps", "c", "", "", body))
	check("update", tally{prepared: 1, committed: 1})
	_, err = h.update("configmaps", "c", "", "", `{"metadata":{"name":"c"},"data":{"bad":""}}`)
	wantStatus(t, err, 422, metav1.StatusReasonInvalid, "")
	if c.prepared != c.rolledBack || c.committed != 0 {
		t.Errorf("refused update: %+v", c)
	}
	c = tally{}

	h.must(h.delete("configmaps", "c", "", ""))
	check("mark as deleted", tally{})
	h.must(h.patch("configmaps", "c", "", "", mergePatch, `{"metadata":{"finalizers":null}}`))
	check("last finalizer", tally{prepared: 1, committed: 1, deleted: 1})
	h.mustCreate("configmaps", `{"metadata":{"name":"d"}}`)
	c = tally{}
	h.must(h.delete("configmaps", "d", "", ""))
	check("delete", tally{deleted: 1})
}

// The hook of an update that lost a race is called again, and what it did before is undone.
func TestHook_Conflict(t *testing.T) {
	h := newWorld(t)
	var c tally
	hook := c.hook()
	old := h.mustCreate("configmaps", `{"metadata":{"name":"c"}}`)
	h.hooks = map[schema.GroupResource]Hook{{Resource: "configmaps"}: {
		Prepare: func(ctx context.Context, obj, old kinds.Object) (commit, rollback func(), err error) {
			if c.prepared == 0 {
				kv, err := h.store.Get(ctx, h.key(h.kind("configmaps"), "default", "c"))
				if err != nil {
					return nil, nil, err
				}
				if _, err := h.store.Update(ctx, kv.Key, kv.Value, kv.ModRev, 0); err != nil {
					return nil, nil, err
				}
			}
			return hook.Prepare(ctx, obj, old)
		},
	}}
	result := h.must(h.patch("configmaps", "c", "", "", mergePatch, `{"data":{"a":"b"}}`))
	if (c != tally{prepared: 2, committed: 1, rolledBack: 1}) {
		t.Errorf("%+v", c)
	}
	if result.Version.Revision() != old.Revision()+2 {
		t.Errorf("revision %d after %d", result.Version.Revision(), old.Revision())
	}
	_, err := h.update("configmaps", "c", "", "", fmt.Sprintf(`{"metadata":{"name":"c","resourceVersion":"%d"}}`, old.Revision()))
	wantStatus(t, err, 409, metav1.StatusReasonConflict, "")
}
