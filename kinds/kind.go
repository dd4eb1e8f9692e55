// Package kinds is the table of everything the API server knows about each API kind: names, storage path, defaults,
// validation, columns, selectable fields, subresources. One file for each kind in the package of its group
// (kinds/apps/deployment.go); package kinds/all lists them. The machinery in apiserver knows no kind by name.
package kinds

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/object"
)

// Object is a typed API object: a Go struct of k8s.io/api with its metadata.
type Object interface {
	runtime.Object
	metav1.Object
}

// Kind is one row of the table. The zero value of every hook means that there is nothing to do there. Hooks get
// typed objects (the pointer type that New returns), may change only what they are documented to change and are
// called from many goroutines.
type Kind struct {
	GVK        schema.GroupVersionKind
	Resource   string   // plural, lower case: "pods"
	Singular   string   // "pod"
	ShortNames []string // "po"
	Categories []string // "all"
	Namespaced bool
	Verbs      []string // nil: all of AllVerbs
	Deprecated string   // text of a Warning header on every request, reads included; "": none

	// Unstored says that objects of this kind are asked and answered but never stored. It has no Path and no cache. Either
	// its only verb is create and it has no NewList (SubjectAccessReview, and Binding, which is an action of pods under
	// another path): what answers is a write.Hook's Post under "", or the action of another row with the same GVK. Or its verbs
	// are get and list (ComponentStatus): an apiserver.Answer makes the objects.
	Unstored bool

	// Path is the place under the storage prefix, without slashes around it: "pods", "services/specs".
	Path string
	// Type is how the bytes are read. Made by the row's constructor; Type.Fields are the selectable fields.
	Type *object.Type
	// UnknownField is the error about a field label that the kind does not have: a format with one verb, for the label. "": upstream's
	// text for kinds that are selected by name and namespace alone.
	UnknownField string
	// NoNamespaceField says that metadata.namespace is no selectable field.
	NoNamespaceField bool
	// Indexes names the selectable fields that lists and watches find by index.
	Indexes []string

	// View, if not nil, makes the row another version of a stored one: one storage and cache, two APIs.
	View *View

	New     func() Object
	NewList func() runtime.Object

	// Default fills in static defaults (never dependent on time, randomness or other objects). It is called on every
	// decoded object of this kind, also on those read from storage before they are patched.
	Default func(obj Object)
	// Drop clears the fields of features that are off, unless old (nil on create) uses them, and returns a warning for each. It is called
	// before PrepareCreate, and for every change but that of the status.
	Drop func(obj, old Object) []string
	// PrepareCreate clears and sets what a create through the main resource may not choose (status, phase ...).
	PrepareCreate func(obj Object)
	// PrepareCreateFor writes into a new object who creates it (certificate signing requests). It is called after
	// PrepareCreate.
	PrepareCreateFor func(obj Object, user User)
	// PrepareUpdate puts back from old what an update through the main resource may not change (status).
	PrepareUpdate func(obj, old Object)
	// HasGeneration says that metadata.generation counts changes of everything but metadata and status.
	HasGeneration bool
	// SameMetadata, if not nil, says whether two states have the same metadata as far as changes of it through the main resource count
	// as well: annotations of deployments, labels of endpoint slices.
	SameMetadata func(obj, old metav1.Object) bool

	// ValidateName checks metadata.name; prefix is true when name is a generateName. Nil: DNS-1123 subdomain.
	ValidateName func(name string, prefix bool) []string
	// Validate checks a new object after defaulting; ObjectMeta has been checked already.
	Validate func(obj Object) field.ErrorList
	// ValidateUpdate checks a changed object against the stored one; ObjectMeta has been checked already. When nil,
	// Validate is called for updates, too.
	ValidateUpdate func(obj, old Object) field.ErrorList
	// Warnings are texts for Warning headers; old is nil on create.
	Warnings func(obj, old Object) []string

	AllowCreateOnUpdate bool // PUT to a missing name creates
	UnconditionalUpdate bool // PUT without resourceVersion overwrites
	ReturnsDeleted      bool // DELETE answers with the object instead of a Status
	NoDeleteCollection  bool
	TTL                 func(obj Object) time.Duration // storage lease; nil or 0: for ever

	// Graceful returns the grace period in seconds that a deleted object gets, or false when the kind knows no graceful
	// deletion. An object with a period of 0 is marked as being deleted, and then removed.
	Graceful func(obj Object, opts *metav1.DeleteOptions) (seconds int64, graceful bool)
	// Terminate, if not nil, makes the first DELETE of an object a mark and nothing else: it sets deletionTimestamp,
	// without a grace period, and calls Terminate (a namespace becomes Terminating). A later DELETE removes the object, if no
	// finalizer holds it.
	Terminate func(obj Object)
	// Dependents says what becomes of the objects that a deleted one owns when the DELETE names no propagation policy.
	Dependents Dependents
	// SpecFinalizers returns finalizers outside metadata that also hold a deletion (namespaces: spec.finalizers).
	SpecFinalizers func(obj Object) []string

	// Columns and Row make server-side tables. len(Row) == len(Columns). Nil: the generic Name, Created At table.
	Columns []metav1.TableColumnDefinition
	Row     func(obj Object, now time.Time) []any
	// RowConditions are set on completed rows (pods); nil: none.
	RowConditions func(obj Object) []metav1.TableRowCondition

	Subresources []Subresource
	// Connections are the subresources through which bytes flow, by name: to a kubelet (exec, attach, portforward, log) or to what
	// is behind it (proxy). Package apiserver/connect answers them.
	Connections map[string]Connection

	// PatchAction recognizes a PATCH of the main resource that really asks for an action (one that sets the node of a
	// pod asks to bind it). It takes what asks for it back out of obj and returns the subresource and the body that
	// might have been posted there instead; "" when the patch asks for none.
	PatchAction func(obj, old Object) (subresource string, body runtime.Object)
}

// Dependents is a kind's answer to a DELETE without a propagation policy (upstream's DefaultGarbageCollectionPolicy). The
// zero value lets the garbage collector delete them in the background.
type Dependents struct {
	// Orphan keeps the dependents: that is what the first clients of old kinds knew.
	Orphan bool
	// None says that the objects own nothing: no policy is heeded, and the finalizers of policies are dropped.
	None bool
	// Warning is a text for a Warning header of a DELETE without a policy; "": none.
	Warning string
}

// UnknownField is what most kinds with selectable fields of their own say of other labels.
const UnknownField = "field label not supported: %s"

// SameAnnotations says whether two states of an object have the same annotations.
func SameAnnotations(obj, old metav1.Object) bool {
	return maps.Equal(obj.GetAnnotations(), old.GetAnnotations())
}

// SameLabels says whether two states of an object have the same labels.
func SameLabels(obj, old metav1.Object) bool { return maps.Equal(obj.GetLabels(), old.GetLabels()) }

// User is who sends a request: the server's verified identity, as far as objects may speak of it.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
}

// AllVerbs are the verbs of an ordinary resource, in discovery's order.
var AllVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// Subresource is one subresource of a kind. There are four sorts, told apart by which hooks are set:
// a part of the object itself (status, finalize: Prepare and Validate), a view (scale: View and Apply, with its own
// kind), an action that is POSTed (binding: Action), and a question that is POSTed and answered by a write.Hook's Post
// (token, eviction: NewView and nothing else but the checks of the body).
type Subresource struct {
	Name  string
	GVK   schema.GroupVersionKind // kind of the body when it is not the object's own
	Verbs []string                // in discovery's order: "get", "patch", "update"

	// Prepare puts back from old everything that this subresource may not change.
	Prepare func(obj, old Object)
	// Validate checks obj against old.
	Validate func(obj, old Object) field.ErrorList

	// NewView returns an empty body, View renders the object, Apply takes a changed view into the object.
	NewView func() runtime.Object
	View    func(obj Object) (runtime.Object, error)
	Apply   func(obj Object, view runtime.Object) field.ErrorList

	// Action changes obj as the posted body (of NewView's type) asks. An error is an apierrors.APIStatus. The
	// machinery stores the changed object with a compare-and-swap and calls Action again on a conflict.
	Action func(obj Object, body runtime.Object) error

	// DefaultBody fills in the defaults of a posted body, ValidateBody checks it. Both are for bodies of NewView's type
	// that a write.Hook's Post answers.
	DefaultBody  func(body runtime.Object)
	ValidateBody func(body runtime.Object) field.ErrorList
}

// Connection is a subresource through which bytes flow.
type Connection struct {
	Kind  string   // of the options or the answer, as discovery names it, in the row's group and version
	Verbs []string // in discovery's order
}

// GroupResource names the resource as error messages and metrics do.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.GVK.Group, Resource: k.Resource}
}

// Subresource returns the subresource of that name, or nil.
func (k *Kind) Subresource(name string) *Subresource {
	for i := range k.Subresources {
		if k.Subresources[i].Name == name {
			return &k.Subresources[i]
		}
	}
	return nil
}
