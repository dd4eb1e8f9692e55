package storage

import (
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// CSIDriver is the row of CSI drivers.
func CSIDriver() *kinds.Kind {
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return &kinds.Kind{
		GVK:      storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
		Resource: "csidrivers",
		Singular: "csidriver",
		Path:     "csidrivers",
		Type: &object.Type{
			APIVersion: "storage.k8s.io/v1", Kind: "CSIDriver",
			New: func() runtime.Object { return &storagev1.CSIDriver{} },
		},
		New:     func() kinds.Object { return &storagev1.CSIDriver{} },
		NewList: func() runtime.Object { return &storagev1.CSIDriverList{} },

		Default: func(obj kinds.Object) { defaultDriver(&obj.(*storagev1.CSIDriver).Spec) },
		// The count of changes begins with 0: upstream does not set it on create.
		PrepareCreate: func(obj kinds.Object) { obj.SetGeneration(0) },
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateDriver(&obj.(*storagev1.CSIDriver).Spec, field.NewPath("spec"))
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			spec, was, path := &obj.(*storagev1.CSIDriver).Spec, &old.(*storagev1.CSIDriver).Spec, field.NewPath("spec")
			errs := validateDriver(spec, path)
			errs = append(errs, validate.Immutable(spec.AttachRequired, was.AttachRequired, path.Child("attachedRequired"))...)
			return append(errs, validate.Immutable(spec.VolumeLifecycleModes, was.VolumeLifecycleModes, path.Child("volumeLifecycleModes"))...)
		},
		ReturnsDeleted: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Boolean("AttachRequired", doc["attachRequired"]),
			column.Boolean("PodInfoOnMount", doc["podInfoOnMount"]),
			column.Boolean("StorageCapacity", doc["storageCapacity"]),
			column.Text("TokenRequests", doc["tokenRequests"]),
			column.Boolean("RequiresRepublish", doc["requiresRepublish"]),
			column.Text("Modes", doc["volumeLifecycleModes"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			driver := obj.(*storagev1.CSIDriver)
			spec := &driver.Spec
			modes := make([]string, len(spec.VolumeLifecycleModes))
			for i, mode := range spec.VolumeLifecycleModes {
				modes[i] = string(mode)
			}
			audiences := column.Unset
			if spec.TokenRequests != nil {
				texts := make([]string, len(spec.TokenRequests))
				for i, r := range spec.TokenRequests {
					texts[i] = r.Audience
				}
				audiences = strings.Join(texts, ",")
			}
			return []any{
				driver.Name, spec.AttachRequired == nil || *spec.AttachRequired, isTrue(spec.PodInfoOnMount), isTrue(spec.StorageCapacity),
				audiences, isTrue(spec.RequiresRepublish), column.Or(strings.Join(modes, ","), column.None),
				column.Since(driver.CreationTimestamp, now),
			}
		},
	}
}

func defaultDriver(spec *storagev1.CSIDriverSpec) {
	for _, b := range []struct {
		at    **bool
		value bool
	}{
		{&spec.AttachRequired, true}, {&spec.PodInfoOnMount, false}, {&spec.StorageCapacity, false}, {&spec.RequiresRepublish, false},
		{&spec.SELinuxMount, false},
	} {
		if *b.at == nil {
			*b.at = &b.value
		}
	}
	if spec.FSGroupPolicy == nil {
		policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
		spec.FSGroupPolicy = &policy
	}
	if len(spec.VolumeLifecycleModes) == 0 {
		spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
}

func validateDriver(spec *storagev1.CSIDriverSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if p := spec.FSGroupPolicy; p != nil {
		errs = append(errs, notOneOf(*p, path.Child("fsGroupPolicy"),
			storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)...)
	}
	errs = append(errs, validateTokenRequests(spec.TokenRequests, path.Child("tokenRequests"))...)
	for _, mode := range spec.VolumeLifecycleModes {
		errs = append(errs, notOneOf(mode, path.Child("volumeLifecycleModes"), storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral)...)
	}
	if period := spec.NodeAllocatableUpdatePeriodSeconds; period != nil && *period < 10 {
		errs = append(errs, field.Invalid(path.Child("nodeAllocatableUpdatePeriodSeconds"), *period, "must be greater than or equal to 10 seconds"))
	}
	if spec.ServiceAccountTokenInSecrets != nil && len(spec.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(path.Child("serviceAccountTokenInSecrets"), *spec.ServiceAccountTokenInSecrets,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	return errs
}

// notOneOf is validate.OneOf, but that an empty value is not supported, not missing.
func notOneOf[T ~string](value T, path *field.Path, supported ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.NotSupported(path, value, supported)}
	}
	return validate.OneOfOrEmpty(value, path, supported...)
}

func validateTokenRequests(requests []storagev1.TokenRequest, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[string]()
	for i, r := range requests {
		at := path.Index(i)
		if seen.Has(r.Audience) {
			errs = append(errs, field.Duplicate(at.Child("audience"), r.Audience))
			continue
		}
		seen.Insert(r.Audience)
		if r.ExpirationSeconds == nil {
			continue
		}
		if *r.ExpirationSeconds < 600 {
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), *r.ExpirationSeconds, "may not specify a duration less than 10 minutes"))
		}
		if *r.ExpirationSeconds > 1<<32 {
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), *r.ExpirationSeconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	return errs
}
