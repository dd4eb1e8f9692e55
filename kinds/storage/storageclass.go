package storage

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// Annotations that make a class the one for claims without class.
const (
	DefaultClassAnnotation     = "storageclass.kubernetes.io/is-default-class"
	BetaDefaultClassAnnotation = "storageclass.beta.kubernetes.io/is-default-class"
)

// StorageClass is the row of storage classes.
func StorageClass() *kinds.Kind {
	doc := storagev1.StorageClass{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:        storagev1.SchemeGroupVersion.WithKind("StorageClass"),
		Resource:   "storageclasses",
		Singular:   "storageclass",
		ShortNames: []string{"sc"},
		Path:       "storageclasses",
		Type: &object.Type{
			APIVersion: "storage.k8s.io/v1", Kind: "StorageClass",
			New: func() runtime.Object { return &storagev1.StorageClass{} },
		},
		New:     func() kinds.Object { return &storagev1.StorageClass{} },
		NewList: func() runtime.Object { return &storagev1.StorageClassList{} },

		Default:  func(obj kinds.Object) { defaultStorageClass(obj.(*storagev1.StorageClass)) },
		Validate: func(obj kinds.Object) field.ErrorList { return validateStorageClass(obj.(*storagev1.StorageClass)) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			class, was := obj.(*storagev1.StorageClass), old.(*storagev1.StorageClass)
			return append(validateStorageClass(class), validateStorageClassUpdate(class, was)...)
		},
		UnconditionalUpdate: true,
		ReturnsDeleted:      true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Provisioner", doc["provisioner"]),
			column.Text("ReclaimPolicy", doc["reclaimPolicy"]),
			column.Text("VolumeBindingMode", doc["volumeBindingMode"]),
			column.Text("AllowVolumeExpansion", doc["allowVolumeExpansion"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			class := obj.(*storagev1.StorageClass)
			name := class.Name
			if class.Annotations[DefaultClassAnnotation] == "true" || class.Annotations[BetaDefaultClassAnnotation] == "true" {
				name += " (default)"
			}
			policy, mode := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingImmediate
			if class.ReclaimPolicy != nil {
				policy = *class.ReclaimPolicy
			}
			if class.VolumeBindingMode != nil {
				mode = *class.VolumeBindingMode
			}
			return []any{
				name, class.Provisioner, string(policy), string(mode), isTrue(class.AllowVolumeExpansion),
				column.Since(class.CreationTimestamp, now),
			}
		},
	}
}

func defaultStorageClass(class *storagev1.StorageClass) {
	if class.ReclaimPolicy == nil {
		policy := corev1.PersistentVolumeReclaimDelete
		class.ReclaimPolicy = &policy
	}
	if class.VolumeBindingMode == nil {
		mode := storagev1.VolumeBindingImmediate
		class.VolumeBindingMode = &mode
	}
}

func isTrue(b *bool) bool { return b != nil && *b }

func validateStorageClass(class *storagev1.StorageClass) field.ErrorList {
	errs := validateProvisioner(class.Provisioner, field.NewPath("provisioner"))
	errs = append(errs, validateParameters(class.Parameters, field.NewPath("parameters"))...)
	if class.ReclaimPolicy != nil {
		errs = append(errs, validate.OneOfOrEmpty(*class.ReclaimPolicy, field.NewPath("reclaimPolicy"),
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	}
	modePath := field.NewPath("volumeBindingMode")
	switch mode := class.VolumeBindingMode; {
	case mode == nil:
		errs = append(errs, field.Required(modePath, ""))
	case *mode != storagev1.VolumeBindingImmediate && *mode != storagev1.VolumeBindingWaitForFirstConsumer:
		errs = append(errs, field.NotSupported(modePath, *mode,
			[]storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer}))
	}
	return append(errs, validateTopologies(class.AllowedTopologies, field.NewPath("allowedTopologies"))...)
}

func validateStorageClassUpdate(class, old *storagev1.StorageClass) field.ErrorList {
	errs := forbidChange(class.Parameters, old.Parameters, "parameters")
	errs = append(errs, forbidChange(class.Provisioner, old.Provisioner, "provisioner")...)
	errs = append(errs, forbidChange(class.ReclaimPolicy, old.ReclaimPolicy, "reclaimPolicy")...)
	return append(errs, validate.Immutable(class.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
}

// validateTopologies checks terms, of which no two may be the same.
func validateTopologies(terms []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	if len(terms) == 0 {
		return nil
	}
	var errs field.ErrorList
	seen := []map[string]sets.Set[string]{nil} // an empty term is refused as a repetition
	for i, term := range terms {
		at := path.Index(i).Child("matchLabelExpressions")
		keys := map[string]sets.Set[string]{}
		for j, e := range term.MatchLabelExpressions {
			at := at.Index(j)
			values := sets.New[string]()
			if len(e.Values) == 0 {
				errs = append(errs, field.Required(at.Child("values"), ""))
			}
			for k, v := range e.Values {
				if values.Has(v) {
					errs = append(errs, field.Duplicate(at.Child("values").Index(k), v))
				}
				values.Insert(v)
			}
			errs = append(errs, metav1validation.ValidateLabelName(e.Key, at.Child("key"))...)
			if _, found := keys[e.Key]; found {
				errs = append(errs, field.Duplicate(at.Child("key"), e.Key))
			}
			keys[e.Key] = values
		}
		if slices.ContainsFunc(seen, func(other map[string]sets.Set[string]) bool {
			return maps.EqualFunc(keys, other, sets.Set[string].Equal)
		}) {
			errs = append(errs, field.Duplicate(at, ""))
		}
		seen = append(seen, keys)
	}
	return errs
}

// forbidChange is what storage classes and their like say of fields that are fixed.
func forbidChange(value, old any, name string) field.ErrorList {
	if equality.Semantic.DeepEqual(value, old) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath(name), "updates to "+name+" are forbidden.")}
}
