package core

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// ConfigMap is the row of configmaps.
func ConfigMap() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("ConfigMap"),
		Resource:   "configmaps",
		Singular:   "configmap",
		ShortNames: []string{"cm"},
		Namespaced: true,
		Path:       "configmaps",
		Type: &object.Type{
			APIVersion: "v1", Kind: "ConfigMap", Namespaced: true,
			New: func() runtime.Object { return &corev1.ConfigMap{} },
		},
		New:     func() kinds.Object { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },

		Validate: func(obj kinds.Object) field.ErrorList { return validateConfigMap(obj.(*corev1.ConfigMap)) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateConfigMapUpdate(obj.(*corev1.ConfigMap), old.(*corev1.ConfigMap))
		},
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Data", corev1.ConfigMap{}.SwaggerDoc()["data"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			cm := obj.(*corev1.ConfigMap)
			return []any{cm.Name, int64(len(cm.Data) + len(cm.BinaryData)), column.Since(cm.CreationTimestamp, now)}
		},
	}
}

func validateConfigMap(cm *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	size := 0
	data, binaryData := field.NewPath("data"), field.NewPath("binaryData")
	for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
		errs = append(errs, validateDataKey(key, data)...)
		if _, found := cm.BinaryData[key]; found {
			errs = append(errs, field.Invalid(data.Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(cm.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(cm.BinaryData)) {
		errs = append(errs, validateDataKey(key, binaryData)...)
		size += len(cm.BinaryData[key])
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "" /* the whole object */, corev1.MaxSecretSize))
	}
	return errs
}

func validateConfigMapUpdate(cm, old *corev1.ConfigMap) field.ErrorList {
	errs := validateStaysImmutable(cm.Immutable, old.Immutable)
	if isTrue(old.Immutable) {
		if !equality.Semantic.DeepEqual(cm.Data, old.Data) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), immutableIsSet))
		}
		if !equality.Semantic.DeepEqual(cm.BinaryData, old.BinaryData) {
			errs = append(errs, field.Forbidden(field.NewPath("binaryData"), immutableIsSet))
		}
	}
	return append(errs, validateConfigMap(cm)...)
}

const immutableIsSet = "field is immutable when `immutable` is set"

// validateStaysImmutable is the rule of config maps and secrets that immutable is never taken back.
func validateStaysImmutable(immutable, old *bool) field.ErrorList {
	if isTrue(old) && !isTrue(immutable) {
		return field.ErrorList{field.Forbidden(field.NewPath("immutable"), immutableIsSet)}
	}
	return nil
}

// validateDataKey checks a key of a config map or secret: it must serve as a file name.
func validateDataKey(key string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, text := range validation.IsConfigMapKey(key) {
		errs = append(errs, field.Invalid(path.Key(key), key, text))
	}
	return errs
}

func isTrue(b *bool) bool { return b != nil && *b }
