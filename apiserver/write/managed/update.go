package managed

import (
	"bytes"
	"cmp"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"vigil/kinds"
)

const (
	fieldsV1    = "FieldsV1"
	maxUpdaters = 10 // more are merged by the library
)

// fast does what [Tracker.slow] does, or nothing at all: then it returns false.
func (t *Tracker) fast(live, next kinds.Object, manager string, now time.Time) bool {
	if reflect.TypeOf(next) != reflect.TypeOf(t.empty) {
		return false
	}
	var base []metav1.ManagedFieldsEntry
	if live != nil {
		base = live.GetManagedFields()
	}
	if t.config.Subresource == "" {
		switch sent := next.GetManagedFields(); {
		case reset(sent):
			if live != nil {
				next.SetManagedFields(nil)
				return true
			}
		case len(sent) > 0 && !sameEntries(sent, base):
			return false
		}
	}
	if live != nil && len(base) == 0 {
		next.SetManagedFields(nil)
		return true
	}
	if !t.ordinary(base) {
		return false
	}

	w := walkers.Get().(*walker)
	defer w.release()
	w.changed.reset()
	w.removed.reset()
	w.path, w.failed = w.path[:0], false
	from := side{reflect.ValueOf(t.empty).Elem(), present}
	if live != nil {
		from.value = reflect.ValueOf(live).Elem()
	}
	w.compare(t.plan, from, side{reflect.ValueOf(next).Elem(), present}, true)
	if w.failed {
		return false
	}
	entries, ok := t.entries(base, w, manager, now)
	if ok {
		next.SetManagedFields(entries)
	}
	return ok
}

// ordinary says that entries are such as the short way can work on.
func (t *Tracker) ordinary(entries []metav1.ManagedFieldsEntry) bool {
	updaters := 0
	for i := range entries {
		e := &entries[i]
		if e.APIVersion != t.version() || e.FieldsType != fieldsV1 || e.FieldsV1 == nil || !plain(e.FieldsV1.GetRawBytes()) {
			return false
		}
		switch e.Operation {
		case metav1.ManagedFieldsOperationUpdate:
			updaters++
		case metav1.ManagedFieldsOperationApply:
		default:
			return false
		}
	}
	return updaters <= maxUpdaters
}

func (t *Tracker) version() string {
	return t.empty.GetObjectKind().GroupVersionKind().GroupVersion().String()
}

// entries are those of base after the changes that the walker found.
func (t *Tracker) entries(base []metav1.ManagedFieldsEntry, w *walker, manager string, now time.Time) ([]metav1.ManagedFieldsEntry, bool) {
	if w.changed.count == 0 && w.removed.count == 0 {
		return base, true
	}
	change := change{w: w}
	out := make([]metav1.ManagedFieldsEntry, 0, len(base)+1)
	mine, updaters := false, 0
	at := metav1.NewTime(now.UTC().Truncate(time.Second))
	for _, e := range base {
		own := e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == t.config.Subresource
		fields, ok := change.of(e.FieldsV1, own)
		if !ok {
			return nil, false
		}
		if own && w.changed.count > 0 {
			mine = true
			e.Time = &at
		}
		if fields == nil {
			continue
		}
		e.FieldsV1 = fields
		if e.Operation == metav1.ManagedFieldsOperationUpdate {
			updaters++
		}
		out = append(out, e)
	}
	if !mine && w.changed.count > 0 {
		if updaters == maxUpdaters {
			return nil, false
		}
		fields := &metav1.FieldsV1{}
		fields.SetRawBytes(bytes.Clone(w.changed.set()))
		out = append(out, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: t.version(), Time: &at,
			FieldsType: fieldsV1, FieldsV1: fields, Subresource: t.config.Subresource,
		})
	}
	if len(out) == 0 {
		return nil, true
	}
	slices.SortStableFunc(out, compareEntries)
	return out, true
}

// change is what the walker found, as the library's sets once those are needed.
type change struct {
	w                *walker
	changed, removed *fieldpath.Set
}

// of is what remains of an entry's fields: they lose those that changed or went, and the own entry gets those that changed.
// Nil means nothing. It returns false when the fields cannot be read.
func (c *change) of(fields *metav1.FieldsV1, own bool) (*metav1.FieldsV1, bool) {
	raw := fields.GetRawBytes()
	loses := c.w.removed.paths().members(raw) > 0
	gains := own && c.w.changed.paths().members(raw) < c.w.changed.count
	if !own && !loses {
		loses = c.w.changed.paths().members(raw) > 0
	}
	if !loses && !gains {
		return fields, true
	}
	if !gains {
		gone := lost{c.w.removed.paths(), c.w.changed.paths()}
		if own {
			gone[1] = gone[0] // what it changed it has and keeps
		}
		left := gone.from(make([]byte, 0, len(raw)), raw)
		if left == nil {
			return nil, true
		}
		out := &metav1.FieldsV1{}
		out.SetRawBytes(left)
		return out, true
	}
	set, err := decode(raw)
	if err == nil && c.changed == nil {
		if c.changed, err = decode(c.w.changed.set()); err == nil {
			c.removed, err = decode(c.w.removed.set())
		}
	}
	if err != nil {
		return nil, false
	}
	set = set.Difference(c.removed).Union(c.changed)
	if set.Empty() {
		return nil, true
	}
	encoded, err := set.ToJSON()
	if err != nil {
		return nil, false
	}
	out := &metav1.FieldsV1{}
	out.SetRawBytes(encoded)
	return out, true
}

// compareEntries is the order of managed fields.
func compareEntries(a, b metav1.ManagedFieldsEntry) int {
	seconds := func(t *metav1.Time) int64 {
		if t == nil {
			return 0
		}
		return t.Unix()
	}
	return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(seconds(a.Time), seconds(b.Time)),
		cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.APIVersion, b.APIVersion), cmp.Compare(a.Subresource, b.Subresource))
}

func sameEntries(a, b []metav1.ManagedFieldsEntry) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.ManagedFieldsEntry) bool {
		return SameButTime(&x, &y) && x.Time.Equal(y.Time)
	})
}

// SameButTime says that two entries differ in their times only, if at all.
func SameButTime(x, y *metav1.ManagedFieldsEntry) bool {
	if x.Manager != y.Manager || x.Operation != y.Operation || x.APIVersion != y.APIVersion || x.Subresource != y.Subresource || x.FieldsType != y.FieldsType {
		return false
	}
	if x.FieldsV1 == nil || y.FieldsV1 == nil {
		return x.FieldsV1 == y.FieldsV1
	}
	return bytes.Equal(x.FieldsV1.GetRawBytes(), y.FieldsV1.GetRawBytes())
}
