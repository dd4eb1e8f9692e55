package admission

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/authn"
	"vigil/kinds"
)

// Operation is what a write does, under upstream's names.
type Operation string

// The operations. A PATCH is an Update, and a PUT or apply that makes the object a Create; what is POSTed to a subresource
// (binding, eviction, token) is a Create there. A Connect reaches through an object (exec, proxy): its Object are the options.
const (
	Create  Operation = "CREATE"
	Update  Operation = "UPDATE"
	Delete  Operation = "DELETE"
	Connect Operation = "CONNECT"
)

// writes are the operations that a kind and each of its subresources may see.
var writes = []Operation{Create, Update, Delete}

// Attributes are one write as plug-ins see it. They belong to one request and must not be kept.
type Attributes struct {
	Kind        *kinds.Kind // of the resource, also when the write goes to a subresource
	Subresource string
	Namespace   string // "" for cluster-scoped kinds
	Name        string // "" as long as it is to be generated
	Operation   Operation

	// Object is what is to be stored, or the body of a POST to a subresource; nil for a Delete. Mutators may change it.
	Object runtime.Object
	// Old is the object as it is stored; nil for a Create. Nobody may change it.
	Old runtime.Object

	User   *authn.User // never nil
	DryRun bool        // nothing will be stored

	Warn     func(text string)       // adds a Warning header; never nil
	Annotate func(key, value string) // adds to the audit event; never nil

	ended []func(stored bool)
}

// Resource names the resource as error messages do.
func (a *Attributes) Resource() schema.GroupResource { return a.Kind.GroupResource() }

// OnEnd has fn called when the write has ended: stored, or not. It is not called when nobody knows.
func (a *Attributes) OnEnd(fn func(stored bool)) { a.ended = append(a.ended, fn) }

// End calls what was given to OnEnd, once.
func (a *Attributes) End(stored bool) {
	ended := a.ended
	a.ended = nil
	for _, fn := range ended {
		fn(stored)
	}
}

// DisplayName is how errors call the object: its name, what its name will be generated from, or Unknown.
func (a *Attributes) DisplayName() string {
	if a.Name != "" {
		return a.Name
	}
	if obj, err := meta.Accessor(a.Object); err == nil && a.Object != nil {
		return NameOf(obj)
	}
	return "Unknown"
}

// NameOf is how errors call an object that may have no name yet.
func NameOf(obj metav1.Object) string {
	if name := obj.GetName(); name != "" {
		return name
	}
	if prefix := obj.GetGenerateName(); prefix != "" {
		return prefix
	}
	return "Unknown"
}

// Forbidden refuses a write (403) because of err. A Forbidden Status passes through.
func Forbidden(a *Attributes, err error) error {
	if apierrors.IsForbidden(err) {
		return err
	}
	return apierrors.NewForbidden(a.Resource(), a.DisplayName(), err)
}

// Refuse is Forbidden with a text.
func Refuse(a *Attributes, text string) error { return Forbidden(a, errors.New(text)) }
