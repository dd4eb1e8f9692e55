package write

import (
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/apiserver/decode"
	"vigil/apiserver/request"
)

// options are what the query of a create, update or patch says.
type options struct {
	dryRun, force bool
	fieldManager  string // "" when not given
	validation    decode.Validation
}

// writeOptions reads and checks CreateOptions, UpdateOptions or PatchOptions (kind says which; patchType belongs to the
// last). The error is a 400 for what cannot be parsed and a 422 for what is not allowed.
func writeOptions(rawQuery, kind string, patchType types.PatchType) (options, error) {
	if rawQuery == "" && patchType != types.ApplyYAMLPatchType {
		return options{}, nil
	}
	var in metav1.PatchOptions
	var seen struct{ manager, validation bool }
	for name, value := range request.Query(rawQuery) {
		switch name {
		case "dryRun":
			in.DryRun = append(in.DryRun, value)
		case "fieldManager":
			if !seen.manager {
				in.FieldManager, seen.manager = value, true
			}
		case "fieldValidation":
			if !seen.validation {
				in.FieldValidation, seen.validation = value, true
			}
		case "force":
			if in.Force == nil && kind == "PatchOptions" {
				force := request.Bool(value)
				in.Force = &force
			}
		}
	}
	var errs field.ErrorList
	if kind == "PatchOptions" {
		errs = validation.ValidatePatchOptions(&in, patchType)
	} else {
		errs = validation.ValidateCreateOptions(&metav1.CreateOptions{DryRun: in.DryRun, FieldManager: in.FieldManager, FieldValidation: in.FieldValidation})
	}
	if len(errs) > 0 {
		return options{}, invalidOptions(kind, errs)
	}
	return options{
		dryRun:       len(in.DryRun) > 0,
		force:        in.Force != nil && *in.Force,
		fieldManager: in.FieldManager,
		validation:   decode.ParseValidation(in.FieldValidation),
	}, nil
}

// deleteOptions reads and checks the options of a delete: the body's when there is one, else the query's.
func deleteOptions(r *Request) (*metav1.DeleteOptions, error) {
	opts := &metav1.DeleteOptions{}
	if len(r.Body) > 0 {
		format, err := decode.FormatOf(r.ContentType)
		if err != nil {
			return nil, err
		}
		if opts, err = decode.DeleteOptions(r.Body, format); err != nil {
			return nil, err
		}
	} else if err := queryDeleteOptions(r.RawQuery, opts); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if errs := validation.ValidateDeleteOptions(opts); len(errs) > 0 {
		return nil, invalidOptions("DeleteOptions", errs)
	}
	return opts, nil
}

func queryDeleteOptions(rawQuery string, opts *metav1.DeleteOptions) error {
	for name, value := range request.Query(rawQuery) {
		switch name {
		case "dryRun":
			opts.DryRun = append(opts.DryRun, value)
		case "gracePeriodSeconds":
			if opts.GracePeriodSeconds == nil {
				n, err := strconv.ParseInt(value, 10, 64)
				if err != nil {
					return err
				}
				opts.GracePeriodSeconds = &n
			}
		case "propagationPolicy":
			if opts.PropagationPolicy == nil {
				policy := metav1.DeletionPropagation(value)
				opts.PropagationPolicy = &policy
			}
		case "orphanDependents":
			if to := orphanDependents(opts); *to == nil {
				orphan := request.Bool(value)
				*to = &orphan
			}
		case "ignoreStoreReadErrorWithClusterBreakingPotential":
			if opts.IgnoreStoreReadErrorWithClusterBreakingPotential == nil {
				ignore := request.Bool(value)
				opts.IgnoreStoreReadErrorWithClusterBreakingPotential = &ignore
			}
		}
	}
	return nil
}

// orphanDependents is the place of the option that propagationPolicy has replaced.
func orphanDependents(opts *metav1.DeleteOptions) **bool {
	//lint:ignore SA1019 clients still send it
	return &opts.OrphanDependents
}

func invalidOptions(kind string, errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}
