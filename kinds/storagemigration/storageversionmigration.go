package storagemigration

import (
	"strings"
	"time"

	migrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// StorageVersionMigration is the row of storage version migrations.
func StorageVersionMigration() *kinds.Kind {
	return &kinds.Kind{
		GVK:      migrationv1.SchemeGroupVersion.WithKind("StorageVersionMigration"),
		Resource: "storageversionmigrations",
		Singular: "storageversionmigration",
		Path:     "storageversionmigrations",
		Type: &object.Type{
			APIVersion: "storagemigration.k8s.io/v1", Kind: "StorageVersionMigration",
			New: func() runtime.Object { return &migrationv1.StorageVersionMigration{} },
		},
		New:     func() kinds.Object { return &migrationv1.StorageVersionMigration{} },
		NewList: func() runtime.Object { return &migrationv1.StorageVersionMigrationList{} },

		PrepareCreate: func(obj kinds.Object) {
			obj.(*migrationv1.StorageVersionMigration).Status = migrationv1.StorageVersionMigrationStatus{}
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			obj.(*migrationv1.StorageVersionMigration).Status = *old.(*migrationv1.StorageVersionMigration).Status.DeepCopy()
		},
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateSpec(&obj.(*migrationv1.StorageVersionMigration).Spec)
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			spec, was := &obj.(*migrationv1.StorageVersionMigration).Spec, &old.(*migrationv1.StorageVersionMigration).Spec
			return append(validateSpec(spec), validate.Immutable(*spec, *was, field.NewPath("spec"))...)
		},

		Columns: []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
			column.Text("Resource", "Fully qualified resource to migrate"),
		},
		Row: func(obj kinds.Object, _ time.Time) []any {
			r := obj.(*migrationv1.StorageVersionMigration).Spec.Resource
			return []any{obj.GetName(), r.String()}
		},

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*migrationv1.StorageVersionMigration).Spec = old.(*migrationv1.StorageVersionMigration).Spec
				metav1.ResetObjectMetaForStatus(obj, old)
			},
			Validate: func(obj, old kinds.Object) field.ErrorList {
				return validateStatus(&obj.(*migrationv1.StorageVersionMigration).Status, &old.(*migrationv1.StorageVersionMigration).Status, field.NewPath("status"))
			},
		}},
	}
}

func validateSpec(spec *migrationv1.StorageVersionMigrationSpec) field.ErrorList {
	var errs field.ErrorList
	path, r := field.NewPath("spec", "resource"), spec.Resource
	if at := path.Child("resource"); r.Resource == "" {
		errs = append(errs, field.Required(at, "resource is required to be set"))
	} else if why := validation.IsDNS1035Label(r.Resource); len(why) > 0 {
		errs = append(errs, field.Invalid(at, r.Resource, strings.Join(why, ",")))
	}
	if r.Group != "" {
		if why := validation.IsDNS1123Subdomain(r.Group); len(why) > 0 {
			errs = append(errs, field.Invalid(path.Child("group"), r.Group, strings.Join(why, ",")))
		}
	}
	return errs
}

// validateStatus keeps to the life of a migration: it runs, then has succeeded or failed for good.
func validateStatus(status, old *migrationv1.StorageVersionMigrationStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	version, conditions := path.Child("resourceVersion"), path.Child("conditions")
	if _, err := resourceversion.CompareResourceVersion(status.ResourceVersion, status.ResourceVersion); err != nil {
		errs = append(errs, field.Invalid(version, status.ResourceVersion, err.Error()))
	}
	errs = append(errs, metav1validation.ValidateConditions(status.Conditions, conditions)...)
	if old.ResourceVersion != "" && old.ResourceVersion != status.ResourceVersion {
		errs = append(errs, field.Invalid(version, status.ResourceVersion, "field is immutable"))
	}
	is := func(s *migrationv1.StorageVersionMigrationStatus, t migrationv1.MigrationConditionType) bool {
		return meta.IsStatusConditionTrue(s.Conditions, string(t))
	}
	running, succeeded, failed := is(status, migrationv1.MigrationRunning), is(status, migrationv1.MigrationSucceeded), is(status, migrationv1.MigrationFailed)
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{succeeded && failed, "Both success and failed conditions cannot be true at the same time"},
		{succeeded && running, "Running condition cannot be true when success condition is true"},
		{failed && running, "Running condition cannot be true when failed condition is true"},
		{is(old, migrationv1.MigrationSucceeded) && !succeeded, "Success condition cannot be set to false once it is true"},
		{is(old, migrationv1.MigrationFailed) && !failed, "Failed condition cannot be set to false once it is true"},
	} {
		if rule.broken {
			errs = append(errs, field.Invalid(conditions, status.Conditions, rule.text))
		}
	}
	return errs
}
