package informer

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"vigil/object"
)

// Resource says what an informer follows. Two resources that are equal share one informer in a factory.
type Resource struct {
	Group, Version, Plural string // "", "v1", "pods"

	// Type says how the objects are decoded; Type.New is nil for custom resources, which are decoded as unstructured.
	Type *object.Type

	Namespace     string // "": all
	LabelSelector string // as on the wire: "app=web"
	FieldSelector string // as on the wire: "spec.nodeName=node-1"

	// MetadataOnly asks for PartialObjectMetadata instead of the whole objects, which then decode to
	// *metav1.PartialObjectMetadata whatever Type says.
	MetadataOnly bool

	// DropManagedFields leaves out metadata.managedFields, often half of an object. An update of an object without them
	// leaves the server's as they are, so nearly every controller can do without. Those that do and those that do not
	// cannot share an informer.
	DropManagedFields bool
}

// ResourceOf returns the resource of a built-in kind by its Go type: ResourceOf[*corev1.Pod](). It panics for types that
// client-go's scheme does not know; that is a broken build.
func ResourceOf[T runtime.Object]() Resource {
	goType := reflect.TypeFor[T]().Elem()
	newObject := func() runtime.Object { return reflect.New(goType).Interface().(runtime.Object) }
	gvks, _, err := scheme.Scheme.ObjectKinds(newObject())
	if err != nil || len(gvks) == 0 {
		panic(fmt.Sprintf("informer: %s is in no scheme: %v", goType, err))
	}
	gvk := gvks[0]
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	apiVersion, kind := gvk.ToAPIVersionAndKind()
	return Resource{
		Group: gvk.Group, Version: gvk.Version, Plural: plural.Resource,
		Type: &object.Type{APIVersion: apiVersion, Kind: kind, New: newObject},
	}
}

// MetadataOf returns the metadata-only resource of a kind.
func MetadataOf(gvr schema.GroupVersionResource) Resource {
	return Resource{Group: gvr.Group, Version: gvr.Version, Plural: gvr.Resource, MetadataOnly: true}
}

// GroupResource names the resource as errors and metrics do.
func (r Resource) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Plural}
}

// String names the resource in logs: "pods", "deployments.apps".
func (r Resource) String() string { return r.GroupResource().String() }

// identity is what two requests for an informer must have in common to share it. Whether the objects are decoded to Go
// types is a part of it, to which is not: a kind has one.
type identity struct {
	group, version, plural, namespace, labels, fields string
	typed, metadataOnly, dropManagedFields            bool
}

func (r Resource) identity() identity {
	typed := r.Type != nil && r.Type.New != nil
	return identity{r.Group, r.Version, r.Plural, r.Namespace, r.LabelSelector, r.FieldSelector, typed, r.MetadataOnly, r.DropManagedFields}
}

// path is the place of the collection on the server, without a slash at the end.
func (r Resource) path() string {
	var b strings.Builder
	if r.Group == "" {
		b.WriteString("/api/")
	} else {
		b.WriteString("/apis/" + r.Group + "/")
	}
	b.WriteString(r.Version)
	if r.Namespace != "" {
		b.WriteString("/namespaces/" + url.PathEscape(r.Namespace))
	}
	return b.String() + "/" + r.Plural
}

// query has the parameters that every request for the resource has.
func (r Resource) query() url.Values {
	q := url.Values{}
	if r.LabelSelector != "" {
		q.Set("labelSelector", r.LabelSelector)
	}
	if r.FieldSelector != "" {
		q.Set("fieldSelector", r.FieldSelector)
	}
	return q
}

const (
	mediaProto = "application/vnd.kubernetes.protobuf"
	mediaJSON  = "application/json"
)

// accept is the Accept header of a list or a watch. Protobuf comes first where the objects can be decoded from it.
func (r Resource) accept(watch bool) string {
	if r.MetadataOnly {
		as := ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
		if watch {
			as = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
		}
		return mediaProto + as + "," + mediaJSON + as + "," + mediaJSON
	}
	if !r.protobuf() {
		return mediaJSON
	}
	return mediaProto + "," + mediaJSON
}

// protoMessage is a Go type of k8s.io/api as its generated protobuf code makes it.
type protoMessage interface {
	runtime.Object
	Unmarshal([]byte) error
}

func (r Resource) protobuf() bool {
	if r.Type == nil || r.Type.New == nil {
		return false
	}
	_, ok := r.Type.New().(protoMessage)
	return ok
}

// withDefaults fills in the Type of a metadata-only resource.
func (r Resource) withDefaults() Resource {
	if r.MetadataOnly {
		r.Type = &object.Type{
			APIVersion: metav1.SchemeGroupVersion.String(), Kind: "PartialObjectMetadata",
			New: func() runtime.Object { return &metav1.PartialObjectMetadata{} },
		}
	}
	if r.Type == nil {
		r.Type = &object.Type{} // unstructured: the objects say what they are
	}
	return r
}
