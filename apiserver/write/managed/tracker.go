package managed

import (
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"vigil/kinds"
)

// Config describes what a tracker is for. All but Subresource, Default, Reset and Only are needed.
type Config struct {
	GVK         schema.GroupVersionKind
	Subresource string // "" is the object itself
	New         func() runtime.Object
	Default     func(kinds.Object)

	// Versions are the other versions of the same objects, with what makes an empty one of each, and Convert converts between
	// all of them. Nil when there is only the one. Convert's errors about unknown versions satisfy runtime.IsNotRegisteredError.
	Versions map[schema.GroupVersionKind]func() runtime.Object
	Convert  func(obj kinds.Object, to schema.GroupVersion) (kinds.Object, error)

	// Reset are top-level fields that requests for this part of the object cannot change and so never own: status on
	// the main resource.
	Reset []string
	// Only, when it is set, are the only fields that can be owned here; a nil member of a path is any element.
	Only [][]any

	// Types knows how the kind's lists and maps merge. It is asked when the first write comes.
	Types func() managedfields.TypeConverter
}

// Tracker keeps the managed fields of one kind's resource or of one subresource. It is safe for use by many goroutines.
type Tracker struct {
	config Config

	once    sync.Once // guards the rest
	manager *managedfields.FieldManager
	plan    *node // nil when the type is not walked
	empty   kinds.Object
	err     error
}

// New returns a tracker.
func New(c Config) *Tracker { return &Tracker{config: c} }

func (t *Tracker) load() error {
	t.once.Do(func() { t.err = t.make() })
	return t.err
}

func (t *Tracker) make() error {
	c := &t.config
	types := c.Types()
	with := objects{c}
	var err error
	t.manager, err = managedfields.NewDefaultFieldManager(types, with, with, with, c.GVK, c.GVK.GroupVersion(), c.Subresource,
		map[fieldpath.APIVersion]fieldpath.Filter{fieldpath.APIVersion(c.GVK.GroupVersion().String()): c.filter()})
	if err != nil {
		return fmt.Errorf("track the fields of %s: %w", c.GVK, err)
	}
	empty, _ := with.New(c.GVK)
	t.empty, _ = empty.(kinds.Object)
	if t.empty == nil || len(c.Only) > 0 {
		return nil
	}
	value, err := types.ObjectToTyped(empty)
	if err != nil {
		return nil // the library will say so, too
	}
	t.plan = newPlan(empty, value, c.Reset)
	return nil
}

// filter is what the fields of a request for this part of the object have to pass to be owned; nil lets all pass.
func (c *Config) filter() fieldpath.Filter {
	if len(c.Only) > 0 {
		var only []fieldpath.SetMatcher
		for _, path := range c.Only {
			only = append(only, *fieldpath.MakePrefixMatcherOrDie(path...))
		}
		matcher := &only[0]
		for i := range only[1:] {
			matcher = matcher.Merge(&only[i+1])
		}
		return fieldpath.NewIncludeMatcherFilter(matcher)
	}
	if len(c.Reset) == 0 {
		return nil
	}
	set := fieldpath.NewSet()
	for _, name := range c.Reset {
		set.Insert(fieldpath.MakePathOrDie(name))
	}
	return fieldpath.NewExcludeSetFilter(set)
}

// Apply merges what manager applies, given as unstructured content, into live, and returns the merged object, with
// defaults and managed fields. With force it takes the fields that others own, else those are a Conflict Status. live
// is an empty object ([Tracker.Empty]) when there is none yet. Errors that are no Status are about what was applied.
func (t *Tracker) Apply(live kinds.Object, applied map[string]any, manager string, force bool) (kinds.Object, error) {
	if err := t.load(); err != nil {
		return nil, err
	}
	obj, err := t.manager.Apply(live, &unstructured.Unstructured{Object: applied}, manager, force)
	if err != nil {
		return nil, err
	}
	merged, ok := obj.(kinds.Object)
	if !ok {
		return nil, fmt.Errorf("apply to %s: got a %T", t.config.GVK, obj)
	}
	merged.GetObjectKind().SetGroupVersionKind(t.config.GVK)
	return merged, nil
}

// Update notes in next what manager changed in going from live to next, live is nil for a create. Managed fields that
// the client sent count only where clients may choose them. An object that is not tracked stays so.
func (t *Tracker) Update(live, next kinds.Object, manager string, now time.Time) {
	if t.load() != nil {
		keep(live, next)
		return
	}
	if manager == "" {
		manager = "unknown"
	}
	if t.plan != nil && t.fast(live, next, manager, now) {
		return
	}
	t.slow(live, next, manager)
}

func (t *Tracker) slow(live, next kinds.Object, manager string) {
	if live == nil {
		live = t.Empty()
	}
	live.GetObjectKind().SetGroupVersionKind(t.config.GVK)
	next.GetObjectKind().SetGroupVersionKind(t.config.GVK)
	t.manager.UpdateNoErrors(live, next, manager)
}

// keep leaves the managed fields as they are.
func keep(live, next kinds.Object) {
	if live == nil {
		next.SetManagedFields(nil)
		return
	}
	next.SetManagedFields(live.GetManagedFields())
}

// Empty is the object from which a create starts.
func (t *Tracker) Empty() kinds.Object {
	obj := t.config.New()
	obj.GetObjectKind().SetGroupVersionKind(t.config.GVK)
	return obj.(kinds.Object)
}

// objects gives the library objects of one kind: it makes, converts and defaults them.
type objects struct{ *Config }

func (o objects) New(schema.GroupVersionKind) (runtime.Object, error) {
	obj := o.Config.New()
	obj.GetObjectKind().SetGroupVersionKind(o.GVK)
	return obj, nil
}

func (o objects) Default(obj runtime.Object) {
	if own, ok := obj.(kinds.Object); ok && o.Config.Default != nil {
		o.Config.Default(own)
	}
}

// ConvertToVersion makes a typed object of an unstructured one, and brings objects of the kind to other versions.
func (o objects) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	if u, ok := in.(*unstructured.Unstructured); ok {
		empty := o.Config.New
		if gvk := u.GroupVersionKind(); gvk != o.GVK {
			if empty = o.Versions[gvk]; empty == nil {
				return nil, runtime.NewNotRegisteredErrForKind("managed", gvk)
			}
		}
		in = empty()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, in); err != nil {
			return nil, err
		}
	}
	if gv, ok := target.(schema.GroupVersion); ok && gv == in.GetObjectKind().GroupVersionKind().GroupVersion() {
		return in, nil
	}
	own, ok := in.(kinds.Object)
	gv, one := target.(schema.GroupVersion)
	if !ok || !one || o.Config.Convert == nil {
		return nil, runtime.NewNotRegisteredErrForTarget("managed", nil, target)
	}
	return o.Config.Convert(own.DeepCopyObject().(kinds.Object), gv)
}

func (o objects) Convert(in, out, context any) error {
	return fmt.Errorf("convert %T: there is only one version", in)
}

func (o objects) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// reset says that a client asks to forget who set what: an empty list, or one with a single empty entry.
func reset(entries []metav1.ManagedFieldsEntry) bool {
	if len(entries) == 0 {
		return entries != nil
	}
	return len(entries) == 1 && entries[0] == (metav1.ManagedFieldsEntry{})
}
