package patch

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	"vigil/apiserver/decode"
)

// Types are the accepted media types, in the order in which errors list them.
var Types = []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType)}

// Limits of patches. A JSON patch can otherwise grow a document without end, and the libraries read what a patch reaches once for each
// level that it is below.
const (
	maxDepth      = 200 // how deep a patch is nested, and how many members a JSON pointer has
	maxOperations = 10000
	maxCopyBytes  = 3 << 20 // what all copy operations may add
)

func init() { jsonpatch.AccumulatedCopySizeLimit = maxCopyBytes }

// Patch is a patch as it came. It can be applied any number of times.
type Patch struct {
	kind       types.PatchType
	body       []byte
	validation decode.Validation

	ops      jsonpatch.Patch // of a JSON patch
	problems []error         // what is wrong with the patch itself, if that matters
	sections []string        // the top-level fields that the patch is about; nil when it may be about any
	parts    parts           // of a strategic patch that has only objects in its sections; nil of another
}

// Source is the object, or the view of one, that a patch starts from, in both forms: patches work on one or the other.
type Source struct {
	Object runtime.Object         // not changed
	JSON   func() ([]byte, error) // the same as JSON; not changed
}

// Parse checks the body of a patch of the given media type as far as that is possible without an object. The errors
// are Statuses: 400 when it is not a patch, 413 when it has too many operations, 415 for other media types.
func Parse(contentType string, body []byte, v decode.Validation) (*Patch, error) {
	p := &Patch{kind: types.PatchType(decode.MediaType(contentType)), body: body, validation: v}
	switch p.kind {
	case types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType:
	default:
		return nil, decode.UnsupportedMediaType(Types)
	}
	if !json.Valid(body) {
		return nil, apierrors.NewBadRequest("invalid JSON patch")
	}
	err := decode.CheckDepth(body, maxDepth)
	if err != nil {
		return nil, undecodable(err)
	}
	switch p.kind {
	case types.JSONPatchType:
		err = p.parseOperations()
		p.sections = operationSections(p.ops)
	case types.MergePatchType:
		err = p.parseMerge()
	case types.StrategicMergePatchType:
		// The library changes the patch, so each application parses it anew and judges it.
		var fields map[string]json.RawMessage
		if p.parts = partsOf(body); p.parts != nil {
			p.sections = fieldSections(p.parts)
		} else if json.Unmarshal(body, &fields) == nil {
			p.sections = fieldSections(fields)
		}
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p *Patch) parseMerge() error {
	var fields map[string]any
	if p.validation == decode.Ignore {
		if kjson.UnmarshalCaseSensitivePreserveInts(p.body, &fields) != nil {
			return nil // for the library to judge
		}
	} else {
		var err error
		if p.problems, err = kjson.UnmarshalStrict(p.body, &fields); err != nil {
			return undecodable(err)
		}
	}
	p.sections = fieldSections(fields)
	return nil
}

// operation is the shape of a JSON patch's operations. It serves only to find fields that no operation has.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from"`
	Value json.RawMessage `json:"value"`
}

func (p *Patch) parseOperations() error {
	if p.validation != decode.Ignore {
		var shape []operation
		problems, err := kjson.UnmarshalStrict(p.body, &shape)
		if err != nil {
			return undecodable(err)
		}
		for _, problem := range problems {
			p.problems = append(p.problems, fmt.Errorf("json patch %w", problem))
		}
	}
	var err error
	if p.ops, err = jsonpatch.DecodePatch(p.body); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if len(p.ops) > maxOperations {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", maxOperations, len(p.ops)))
	}
	for _, op := range p.ops {
		path, _ := op.Path()
		from, _ := op.From()
		if max(strings.Count(path, "/"), strings.Count(from, "/")) > maxDepth {
			return undecodable(fmt.Errorf("exceeded max depth: a path has more than %d members", maxDepth))
		}
	}
	return nil
}

// Apply patches what source holds into obj, an empty object of kind gvk. The warnings are those of [decode.Warn].
// Errors are Statuses: 422 for a patch that does not fit the object or makes none of it, 400 for one that is no patch.
func (p *Patch) Apply(source Source, gvk schema.GroupVersionKind, obj runtime.Object) (warnings []string, err error) {
	if warnings, ok := p.applySections(source, gvk, obj); ok {
		return warnings, nil
	}
	return p.applyWhole(source, gvk, obj)
}

// applyWhole patches the whole object.
func (p *Patch) applyWhole(source Source, gvk schema.GroupVersionKind, obj runtime.Object) (warnings []string, err error) {
	if p.kind == types.StrategicMergePatchType {
		return p.applyStrategic(source, gvk, obj)
	}
	current, err := source.JSON()
	if err != nil {
		return nil, fmt.Errorf("encode the object to be patched: %w", err)
	}
	var patched []byte
	if p.kind == types.JSONPatchType {
		if patched, err = guarded(func() ([]byte, error) { return p.ops.Apply(current) }); err != nil {
			return nil, unprocessable(err)
		}
	} else if patched, err = guarded(func() ([]byte, error) { return jsonpatch.MergePatch(current, p.body) }); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}

	var problems []error
	switch err = decode.CheckJSON(patched, obj); {
	case err != nil:
	case p.validation == decode.Ignore:
		err = kjson.UnmarshalCaseSensitivePreserveInts(patched, obj)
	default:
		problems, err = kjson.UnmarshalStrict(patched, obj)
	}
	return p.finish(func() string { return string(patched) }, gvk, obj, append(p.problems[:len(p.problems):len(p.problems)], problems...), err)
}

// guarded calls a patch library, which may panic on patches that make no sense: a replacement of the whole document by
// nothing, a list where the key of a list's element should be. They are errors of the patch like any other.
func guarded[T any](apply func() (T, error)) (patched T, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("apply patch: %v", reason)
		}
	}()
	return apply()
}

// finish judges the decoded result: err is why it could not be decoded, problems is what strict decoding found, shown
// is how errors print the patch.
func (p *Patch) finish(shown func() string, gvk schema.GroupVersionKind, obj runtime.Object, problems []error, err error) ([]string, error) {
	if err == nil && len(problems) > 0 && p.validation == decode.Strict {
		err = runtime.NewStrictDecodingError(problems)
	}
	if err != nil {
		return nil, invalid(shown(), err)
	}
	if err := checkKind(shown, gvk, obj); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return decode.Warnings(problems), nil
}

// checkKind refuses patches that turn the object into another kind or version.
func checkKind(shown func() string, gvk schema.GroupVersionKind, obj runtime.Object) error {
	actual := obj.GetObjectKind().GroupVersionKind()
	switch {
	case actual == gvk, actual.Kind == "" && actual.Version == "":
		return nil
	case actual.Kind == gvk.Kind || actual.Kind == "":
		if actual.Version == "" {
			return nil
		}
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", actual.GroupVersion(), gvk.GroupVersion()))
	default:
		return invalid(shown(), fmt.Errorf("no kind %q is registered for version %q", actual.Kind, actual.GroupVersion()))
	}
}

// unprocessable is the Status of a JSON patch that does not fit the object. Upstream does not say why.
func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}

func undecodable(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
}
