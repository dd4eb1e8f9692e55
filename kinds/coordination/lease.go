package coordination

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// Lease is the row of leases: the heartbeats of nodes and the locks of leader election. An update must carry the
// resourceVersion that it was read at, since that is what makes a lease a lock.
func Lease() *kinds.Kind {
	return &kinds.Kind{
		GVK:        coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		Resource:   "leases",
		Singular:   "lease",
		Namespaced: true,
		Path:       "leases",
		Type: &object.Type{
			APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Namespaced: true,
			New: func() runtime.Object { return &coordinationv1.Lease{} },
		},
		New:     func() kinds.Object { return &coordinationv1.Lease{} },
		NewList: func() runtime.Object { return &coordinationv1.LeaseList{} },

		PrepareCreate: func(obj kinds.Object) { dropCoordination(&obj.(*coordinationv1.Lease).Spec, nil) },
		PrepareUpdate: func(obj, old kinds.Object) {
			dropCoordination(&obj.(*coordinationv1.Lease).Spec, &old.(*coordinationv1.Lease).Spec)
		},
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateLeaseSpec(&obj.(*coordinationv1.Lease).Spec, field.NewPath("spec"))
		},
		AllowCreateOnUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			lease := obj.(*coordinationv1.Lease)
			holder := ""
			if lease.Spec.HolderIdentity != nil {
				holder = *lease.Spec.HolderIdentity
			}
			return []any{lease.Name, holder, column.Since(lease.CreationTimestamp, now)}
		},
	}
}

// dropCoordination drops the fields of coordinated leader election (KEP-4355), whose feature gate is off by default,
// unless the stored lease uses them.
func dropCoordination(spec, old *coordinationv1.LeaseSpec) {
	if old == nil || old.Strategy == nil {
		spec.Strategy = nil
	}
	if old == nil || old.PreferredHolder == nil {
		spec.PreferredHolder = nil
	}
}

func validateLeaseSpec(spec *coordinationv1.LeaseSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.LeaseDurationSeconds != nil && *spec.LeaseDurationSeconds <= 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDurationSeconds"), *spec.LeaseDurationSeconds, "must be greater than 0"))
	}
	errs = append(errs, validate.NonNegativePtr(spec.LeaseTransitions, path.Child("leaseTransitions"))...)
	if spec.Strategy != nil {
		errs = append(errs, validateStrategy(*spec.Strategy, path.Child("strategy"))...)
	}
	if spec.PreferredHolder != nil && *spec.PreferredHolder != "" && (spec.Strategy == nil || *spec.Strategy == "") {
		errs = append(errs, field.Forbidden(path.Child("preferredHolder"), "may only be specified if `strategy` is defined"))
	}
	return errs
}

// validateStrategy accepts the known strategy and names with a domain. The path of its errors, spec.strategy.strategy, is
// upstream's.
func validateStrategy(strategy coordinationv1.CoordinatedLeaseStrategy, path *field.Path) field.ErrorList {
	path = path.Child("strategy")
	if !strings.Contains(string(strategy), "/") {
		if strategy == coordinationv1.OldestEmulationVersion {
			return nil
		}
		return field.ErrorList{field.NotSupported(path, strategy, []coordinationv1.CoordinatedLeaseStrategy{coordinationv1.OldestEmulationVersion})}
	}
	var errs field.ErrorList
	for _, text := range validation.IsQualifiedName(string(strategy)) {
		errs = append(errs, field.Invalid(path, strategy, text))
	}
	return errs
}
