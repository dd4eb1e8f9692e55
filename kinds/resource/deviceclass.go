package resource

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/podspec"
	"vigil/object"
)

// DeviceClass is the row of device classes.
func DeviceClass() *kinds.Kind {
	return &kinds.Kind{
		GVK:      resourcev1.SchemeGroupVersion.WithKind("DeviceClass"),
		Resource: "deviceclasses",
		Singular: "deviceclass",
		Path:     "deviceclasses",
		Type: &object.Type{
			APIVersion: "resource.k8s.io/v1", Kind: "DeviceClass",
			New: func() runtime.Object { return &resourcev1.DeviceClass{} },
		},
		New:     func() kinds.Object { return &resourcev1.DeviceClass{} },
		NewList: func() runtime.Object { return &resourcev1.DeviceClassList{} },

		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateClass(&obj.(*resourcev1.DeviceClass).Spec, nil, field.NewPath("spec"))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateClass(&obj.(*resourcev1.DeviceClass).Spec, &old.(*resourcev1.DeviceClass).Spec, field.NewPath("spec"))
		},
		UnconditionalUpdate: true,
		ReturnsDeleted:      true,

		Columns: []metav1.TableColumnDefinition{column.Name(), column.Age()},
		Row: func(obj kinds.Object, now time.Time) []any {
			return []any{obj.GetName(), column.Since(obj.GetCreationTimestamp(), now)}
		},
	}
}

func validateClass(spec, old *resourcev1.DeviceClassSpec, path *field.Path) field.ErrorList {
	stored := old != nil && apiequality.Semantic.DeepEqual(spec.Selectors, old.Selectors)
	errs := validateSelectors(spec.Selectors, stored, path.Child("selectors"))
	stored = old != nil && apiequality.Semantic.DeepEqual(spec.Config, old.Config)
	errs = append(errs, each(spec.Config, resourcev1.DeviceConfigMaxSize, path.Child("config"), func(c *resourcev1.DeviceClassConfiguration, path *field.Path) field.ErrorList {
		return validateConfiguration(&c.DeviceConfiguration, stored, path)
	})...)
	if name := spec.ExtendedResourceName; name != nil && !podspec.IsExtendedResourceName(corev1.ResourceName(*name)) {
		errs = append(errs, field.Invalid(path.Child("extendedResourceName"), *name, "must be a valid extended resource name"))
	}
	return errs
}

// validateConfiguration checks what a driver is told. The length of what is stored passes.
func validateConfiguration(c *resourcev1.DeviceConfiguration, stored bool, path *field.Path) field.ErrorList {
	path = path.Child("opaque")
	if c.Opaque == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	limit := resourcev1.OpaqueParametersMaxLength
	if stored {
		limit = unlimited
	}
	errs := podspec.CSIDriverName(c.Opaque.Driver, path.Child("driver"))
	return append(errs, validateRawObject(c.Opaque.Parameters.Raw, limit, path.Child("parameters"))...)
}
