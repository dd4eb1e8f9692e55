package write

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/validate"
)

var metadataPath = field.NewPath("metadata")

// matchNamespace gives an object the request's namespace, and refuses one that names another. Objects of cluster-scoped
// kinds lose theirs.
func (o *op) matchNamespace(obj metav1.Object) error {
	want := ""
	if o.k.Namespaced {
		want = o.r.Namespace
	}
	switch have := obj.GetNamespace(); {
	case have == want:
	case have == "" || want == "":
		obj.SetNamespace(want)
	default:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	return nil
}

// matchName refuses an object that is called otherwise than the URL says.
func (o *op) matchName(obj metav1.Object) error {
	switch name := obj.GetName(); name {
	case o.r.Name:
		return nil
	case "":
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s based on URL) was undeterminable: name must be provided", o.r.Name))
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", name, o.r.Name))
	}
}

// dropSystemMetadata takes out of a new object what only the server says about objects. Admission does not see the client's
// word for it.
func dropSystemMetadata(obj metav1.Object) {
	obj.SetUID("")
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetSelfLink("")
}

// newMetadata sets what only the server says about a new object. The resource version stays as it came: createOnce looks at
// it, and it is never stored.
func (o *op) newMetadata(obj kinds.Object) {
	obj.SetUID(types.UID(uuid.NewString()))
	obj.SetCreationTimestamp(o.timestamp())
	obj.SetDeletionTimestamp(nil)
	obj.SetDeletionGracePeriodSeconds(nil)
	obj.SetGeneration(0)
	if o.k.HasGeneration {
		obj.SetGeneration(1)
	}
}

// keepMetadata puts back from old what no update may change, as far as upstream does so in silence. What is still
// different afterwards is for validation to refuse.
func keepMetadata(obj, old kinds.Object) {
	if obj.GetUID() == "" {
		obj.SetUID(old.GetUID())
	}
	if created := old.GetCreationTimestamp(); !created.IsZero() {
		obj.SetCreationTimestamp(created)
	}
	if deletion := old.GetDeletionTimestamp(); !deletion.IsZero() {
		obj.SetDeletionTimestamp(deletion)
	}
	if obj.GetDeletionGracePeriodSeconds() == nil {
		obj.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	}
}

// timestamp is now as objects have it: UTC, whole seconds.
func (o *op) timestamp() metav1.Time {
	return metav1.NewTime(o.now().UTC().Truncate(time.Second))
}

// Generated names are a prefix and a random end.
const (
	generatedSuffix = 5
	longestPrefix   = 63 - generatedSuffix
	// generateAttempts is how many names are tried before a create with generateName gives up.
	generateAttempts = 8
)

func generateName(prefix string) string {
	if len(prefix) > longestPrefix {
		prefix = prefix[:longestPrefix]
	}
	return prefix + rand.String(generatedSuffix)
}

// dropRepeatedOwners removes owner references that are there twice, with a warning.
func (o *op) dropRepeatedOwners(obj metav1.Object) {
	refs := obj.GetOwnerReferences()
	if len(refs) < 2 {
		return
	}
	type owner struct {
		ref               metav1.OwnerReference // without what it points to
		controller, block string
	}
	optional := func(b *bool) string {
		if b == nil {
			return ""
		}
		return strconv.FormatBool(*b)
	}
	var kept []metav1.OwnerReference
	var repeated []string
	seen := make(map[owner]bool, len(refs))
	for _, ref := range refs {
		id := owner{ref, optional(ref.Controller), optional(ref.BlockOwnerDeletion)}
		id.ref.Controller, id.ref.BlockOwnerDeletion = nil, nil
		if seen[id] {
			repeated = append(repeated, string(ref.UID))
			continue
		}
		seen[id] = true
		kept = append(kept, ref)
	}
	if len(repeated) == 0 {
		return
	}
	obj.SetOwnerReferences(kept)
	o.warn.add(".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: " + strings.Join(repeated, ", "))
}

// validateNew checks the metadata of a new object and then the object.
func (o *op) validateNew(obj kinds.Object) error {
	validName := validation.ValidateNameFunc(validation.NameIsDNSSubdomain)
	if o.k.ValidateName != nil {
		validName = o.k.ValidateName
	}
	errs := validation.ValidateObjectMetaAccessor(obj, o.k.Namespaced, validName, metadataPath)
	for _, msg := range content.IsPathSegmentName(obj.GetName()) {
		errs = append(errs, field.Invalid(metadataPath.Child("name"), obj.GetName(), msg))
	}
	if o.k.Validate != nil {
		errs = append(errs, o.k.Validate(obj)...)
	}
	return o.invalid(obj, errs)
}

// validateChanged checks the metadata of a changed object and then the object, by the rules of the subresource if the
// request is for one of the object's parts.
func (o *op) validateChanged(obj, old kinds.Object) error {
	errs := validation.ValidateObjectMetaAccessorUpdate(changedMetadata(obj, old), old, metadataPath)
	if finalizers := obj.GetFinalizers(); len(finalizers) > 0 {
		errs = append(errs, validation.ValidateFinalizers(finalizers, metadataPath.Child("finalizers"))...)
	}
	switch {
	case o.part():
		if o.sub.Validate != nil {
			errs = append(errs, o.sub.Validate(obj, old)...)
		}
	case o.k.ValidateUpdate != nil:
		errs = append(errs, o.k.ValidateUpdate(obj, old)...)
	case o.k.Validate != nil:
		errs = append(errs, o.k.Validate(obj)...)
	}
	return o.invalid(obj, errs)
}

// changedMetadata is the metadata of obj without what is expensive to check and the same in old, where it was checked
// when it came.
func changedMetadata(obj, old kinds.Object) metav1.Object {
	changed := &metav1.ObjectMeta{
		Name:                       obj.GetName(),
		Namespace:                  obj.GetNamespace(),
		UID:                        obj.GetUID(),
		ResourceVersion:            obj.GetResourceVersion(),
		Generation:                 obj.GetGeneration(),
		CreationTimestamp:          obj.GetCreationTimestamp(),
		DeletionTimestamp:          obj.GetDeletionTimestamp(),
		DeletionGracePeriodSeconds: obj.GetDeletionGracePeriodSeconds(),
		Finalizers:                 obj.GetFinalizers(),
		OwnerReferences:            obj.GetOwnerReferences(),
	}
	if labels := obj.GetLabels(); !maps.Equal(labels, old.GetLabels()) {
		changed.Labels = labels
	}
	if annotations := obj.GetAnnotations(); !maps.Equal(annotations, old.GetAnnotations()) {
		changed.Annotations = annotations
	}
	return changed
}

func (o *op) invalid(obj metav1.Object, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(o.k.GVK.GroupKind(), obj.GetName(), validate.Bounded(errs))
}

// matchResourceVersion holds the resource version of a changed object against the current one. A missing one means
// whatever there is, if the kind allows that.
func (o *op) matchResourceVersion(obj metav1.Object, old kinds.Object) error {
	want, have := obj.GetResourceVersion(), old.GetResourceVersion()
	switch {
	case want == have:
		return nil
	case want == "" || want == "0":
		if o.k.UnconditionalUpdate {
			obj.SetResourceVersion(have)
			return nil
		}
		return apierrors.NewInvalid(schema.GroupKind{Group: o.k.GVK.Group, Kind: o.k.Resource}, o.r.Name, field.ErrorList{
			field.Invalid(metadataPath.Child("resourceVersion"), 0, "must be specified for an update"),
		})
	default:
		return apierrors.NewConflict(o.gr(), o.r.Name, errors.New(modified))
	}
}
