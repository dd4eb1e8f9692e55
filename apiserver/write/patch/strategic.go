package patch

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"vigil/apiserver/decode"
)

// applyStrategic merges over the unstructured forms; the library changes both of its arguments, so each application
// parses the patch anew.
func (p *Patch) applyStrategic(source Source, gvk schema.GroupVersionKind, obj runtime.Object) ([]string, error) {
	fields := map[string]any{}
	problems, err := p.unmarshal(&fields)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	current, err := runtime.DefaultUnstructuredConverter.ToUnstructured(source.Object)
	if err != nil {
		return nil, fmt.Errorf("convert the object to be patched: %w", err)
	}
	patched, err := guarded(func() (map[string]any, error) { return strategicpatch.StrategicMergeMapPatch(current, fields, obj) })
	if err != nil {
		return nil, strategicError(err)
	}
	shown := func() string { return fmt.Sprintf("%+v", fields) }
	if err := decode.CheckFields(patched, obj); err != nil {
		return p.finish(shown, gvk, obj, nil, err)
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(patched, obj, p.validation != decode.Ignore)
	if strict, ok := runtime.AsStrictDecodingError(err); ok {
		problems, err = append(problems, strict.Errors()...), nil
	}
	return p.finish(shown, gvk, obj, problems, err)
}

func (p *Patch) unmarshal(into *map[string]any) (problems []error, err error) {
	if p.validation == decode.Ignore {
		return nil, kjson.UnmarshalCaseSensitivePreserveInts(p.body, into)
	}
	return kjson.UnmarshalStrict(p.body, into)
}

// strategicError says whether a strategic patch is broken (400) or does not fit the object (422).
func strategicError(err error) error {
	if errors.Is(err, mergepatch.ErrNoListOfLists) || errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys) {
		return unprocessable(err)
	}
	return apierrors.NewBadRequest(err.Error())
}

// invalid is the Status of a patch whose result is no object of the kind; shown is how the patch is printed.
func invalid(shown string, err error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), shown, err.Error()),
	})
}
