package write

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"vigil/apiserver/openapi"
	"vigil/apiserver/write/managed"
	"vigil/kinds"
	"vigil/object"
)

// only are the fields that some subresources let change; nil is any element. Others let everything change that their
// Prepare hook does not put back.
var only = map[string][][]any{
	"ephemeralcontainers": {{"spec", "ephemeralContainers"}},
	"resize": {
		{"spec", "containers", fieldpath.MatchAnyPathElement(), "resources"}, {"spec", "containers", fieldpath.MatchAnyPathElement(), "resizePolicy"},
		{"spec", "initContainers", fieldpath.MatchAnyPathElement(), "resources"}, {"spec", "initContainers", fieldpath.MatchAnyPathElement(), "resizePolicy"},
	},
}

// newTrackers makes the field managers of a resource and of its subresources that updates go to, by subresource. builtin are the schemas
// of the kinds that client-go has; what trackers need of schemas is made with the first write.
func newTrackers(table *kinds.Table, k *kinds.Kind, builtin func() managedfields.TypeConverter) map[string]*managed.Tracker {
	if k.New == nil || k.Type == nil {
		return nil
	}
	own := func() runtime.Object { return k.New() }
	c := managed.Config{GVK: k.GVK, New: own, Default: k.Default, Types: typesOf(k.GVK, own, builtin)}
	c.Versions, c.Convert = otherVersions(table, k)
	if k.Subresource("status") != nil {
		c.Reset = []string{"status"}
	}
	out := map[string]*managed.Tracker{"": managed.New(c)}
	for i := range k.Subresources {
		sub := &k.Subresources[i]
		if !slices.Contains(sub.Verbs, "update") && !slices.Contains(sub.Verbs, "patch") {
			continue
		}
		of := c
		of.Subresource, of.Reset, of.Only = sub.Name, []string{"spec"}, only[sub.Name]
		if sub.Name == "finalize" {
			of.Reset = []string{"status"}
		}
		if sub.NewView != nil {
			of = managed.Config{GVK: sub.GVK, Subresource: sub.Name, New: sub.NewView, Types: typesOf(sub.GVK, sub.NewView, builtin)}
		}
		out[sub.Name] = managed.New(of)
	}
	return out
}

// otherVersions are the versions that share a storage with k, and what converts between all of them: the entries of an object may be
// about any.
func otherVersions(table *kinds.Table, k *kinds.Kind) (others map[schema.GroupVersionKind]func() runtime.Object, convert func(obj kinds.Object, to schema.GroupVersion) (kinds.Object, error)) {
	all := []*kinds.Kind{k}
	for _, other := range table.All() {
		if other != k && other.Path != "" && other.Stored() == k.Stored() {
			if others == nil {
				others = map[schema.GroupVersionKind]func() runtime.Object{}
			}
			others[other.GVK] = func() runtime.Object { return other.New() }
			all = append(all, other)
		}
	}
	if len(all) == 1 {
		return nil, nil
	}
	return others, func(obj kinds.Object, to schema.GroupVersion) (kinds.Object, error) {
		gvk := obj.GetObjectKind().GroupVersionKind()
		var err error
		for _, from := range all {
			if from.GVK == gvk && from.View != nil {
				if obj, err = from.View.ToStored(obj); err != nil {
					return nil, err
				}
			}
		}
		for _, into := range all {
			if into.GVK.GroupVersion() != to {
				continue
			}
			if into.View != nil {
				if obj, err = into.View.FromStored(obj); err != nil {
					return nil, err
				}
			}
			obj.GetObjectKind().SetGroupVersionKind(into.GVK)
			return obj, nil
		}
		return nil, runtime.NewNotRegisteredErrForTarget("write", nil, to)
	}
}

// typesOf knows how the lists and maps of a kind merge: as client-go's schema says, or, where that lacks the kind, as its
// own description does.
func typesOf(gvk schema.GroupVersionKind, empty func() runtime.Object, builtin func() managedfields.TypeConverter) func() managedfields.TypeConverter {
	return func() managedfields.TypeConverter {
		types, obj := builtin(), empty()
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		if _, err := types.ObjectToTyped(obj); err == nil {
			return types
		}
		if own, err := managedfields.NewTypeConverter(openapi.Models(obj, gvk), false); err == nil {
			return own
		}
		return managedfields.NewDeducedTypeConverter()
	}
}

// tracker is that of the request's resource or subresource.
func (o *op) tracker() *managed.Tracker {
	return o.res.trackers[o.r.Subresource]
}

// track notes in obj which fields the request changed. old is nil for a create.
func (o *op) track(obj, old kinds.Object) {
	if t := o.tracker(); t != nil {
		t.Update(old, obj, o.manager(), o.now())
	}
}

// manager is who changes fields: what the client calls itself, or the beginning of its User-Agent.
func (o *op) manager() string {
	if o.opts.fieldManager != "" {
		return o.opts.fieldManager
	}
	name, _, _ := strings.Cut(o.r.UserAgent, "/")
	if len(name) <= validation.FieldManagerMaxLength && printable(name) {
		return name
	}
	var b strings.Builder
	for _, r := range name {
		if !unicode.IsPrint(r) {
			continue
		}
		if b.Len()+utf8.RuneLen(r) > validation.FieldManagerMaxLength {
			break
		}
		b.WriteRune(r)
	}
	return b.String()
}

func printable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

// trackView calls change with the part of an object's managed fields that a view of it shows, and sets fields to the
// object's after it has changed them. Views of other kinds than Scale show nothing that could be owned.
func (o *op) trackView(old kinds.Object, change func(shown []metav1.ManagedFieldsEntry) ([]metav1.ManagedFieldsEntry, error), fields *[]metav1.ManagedFieldsEntry) error {
	if o.sub.GVK.Kind != "Scale" {
		_, err := change(nil)
		*fields = old.GetManagedFields()
		return err
	}
	gv := o.k.GVK.GroupVersion()
	handler := managedfields.NewScaleHandler(old.GetManagedFields(), gv, managedfields.ResourcePathMappings{gv.String(): fieldpath.MakePathOrDie("spec", "replicas")})
	shown, err := handler.ToSubresource()
	if err != nil {
		return fmt.Errorf("show the managed fields of %s in its scale: %w", old.GetName(), err)
	}
	if shown, err = change(shown); err != nil {
		return err
	}
	if *fields, err = handler.ToParent(shown); err != nil {
		return fmt.Errorf("take managed fields from the scale of %s: %w", old.GetName(), err)
	}
	return nil
}

// onlyTimesChanged says that a changed object, encoded as stored, is the current one but for times in its managed fields.
func (o *op) onlyTimesChanged(stored []byte, obj, old kinds.Object, cur *object.Version) bool {
	now, before := obj.GetManagedFields(), old.GetManagedFields()
	if len(now) == 0 || !slices.EqualFunc(now, before, func(a, b metav1.ManagedFieldsEntry) bool { return managed.SameButTime(&a, &b) }) {
		return false
	}
	if slices.EqualFunc(now, before, func(a, b metav1.ManagedFieldsEntry) bool { return a.Time.Equal(b.Time) }) {
		return false // then there is another difference
	}
	message, err := cur.ProtobufMessage()
	if err != nil {
		return false
	}
	return sameWithoutManaged(storedMessage(stored), message)
}
