package decode

import (
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"vigil/apiserver/decode/internal/bounds"
	"vigil/apiserver/decode/internal/quick"
)

// Into decodes body into obj, an empty object of kind gvk, and sets its kind and apiVersion. A body that names no kind
// or version is taken to be of that kind. The warnings are those of [Warn]: one for each unknown or duplicate field.
// Errors are Statuses with upstream's texts; obj is then half filled and worth nothing.
func Into(body []byte, f Format, v Validation, gvk schema.GroupVersionKind, obj runtime.Object) (warnings []string, err error) {
	var problems []error
	switch f {
	case Protobuf:
		err = fromProtobuf(body, gvk, obj)
	case YAML:
		problems, err = fromYAML(body, v, gvk, obj)
	default:
		problems, err = fromJSON(body, body, v, gvk, obj)
	}
	if err != nil {
		return nil, err
	}
	if len(problems) > 0 && v == Strict {
		return nil, cannotHandle(gvk, gvk, runtime.NewStrictDecodingError(problems))
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return Warnings(problems), nil
}

// fromJSON decodes data; original is what the client sent, for the error texts.
func fromJSON(data, original []byte, v Validation, gvk schema.GroupVersionKind, obj runtime.Object) (problems []error, err error) {
	plan := bounds.Of(obj)
	if plan.Cyclic() {
		if err := plan.JSON(data); err != nil {
			return nil, explainJSON(data, original, gvk, err)
		}
	}
	if quick.Unmarshal(data, obj) {
		if is(obj.GetObjectKind(), gvk) {
			return nil, nil
		}
		return nil, explainJSON(data, original, gvk, nil)
	}
	switch err = plan.JSON(data); {
	case err != nil:
	case v == Ignore:
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, obj)
	default:
		problems, err = kjson.UnmarshalStrict(data, obj)
	}
	if err == nil && is(obj.GetObjectKind(), gvk) {
		return problems, nil
	}
	return nil, explainJSON(data, original, gvk, err)
}

// is says whether a decoded object calls itself a gvk, as far as it says anything.
func is(kind schema.ObjectKind, gvk schema.GroupVersionKind) bool {
	actual := kind.GroupVersionKind()
	if meta, ok := kind.(*metav1.TypeMeta); ok && actual.Version == "" && meta.APIVersion != "" {
		return false // not even a version
	}
	return withDefaults(actual, gvk) == gvk
}

func fromYAML(body []byte, v Validation, gvk schema.GroupVersionKind, obj runtime.Object) ([]error, error) {
	data, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil, unrecognized(gvk, err, body)
	}
	var problems []error
	if v != Ignore {
		// The conversion drops duplicate keys, so they have to be looked for in the original.
		if _, err := yaml.YAMLToJSONStrict(body); err != nil {
			problems = append(problems, err)
		}
	}
	more, err := fromJSON(data, body, v, gvk, obj)
	return append(problems, more...), err
}

type unmarshaler interface{ Unmarshal([]byte) error }

func fromProtobuf(body []byte, gvk schema.GroupVersionKind, obj runtime.Object) error {
	env, err := openEnvelope(body)
	if err != nil {
		return unrecognized(gvk, err, body)
	}
	actual := schema.FromAPIVersionAndKind(env.apiVersion, env.kind)
	if actual.Kind == "" {
		actual.Kind = gvk.Kind
	}
	if actual.Version == "" {
		actual.Group, actual.Version = gvk.Group, gvk.Version
	}
	if actual != gvk {
		return otherKind(actual, gvk)
	}
	message, ok := obj.(unmarshaler)
	if !ok {
		return cannotHandle(gvk, gvk, fmt.Errorf("object %v does not implement the protobuf marshalling interface and cannot be encoded to a protobuf message", reflect.TypeOf(obj)))
	}
	if err := bounds.Of(obj).Protobuf(env.raw); err != nil {
		return cannotHandle(gvk, gvk, err)
	}
	if err := message.Unmarshal(env.raw); err != nil {
		return cannotHandle(gvk, gvk, err)
	}
	return nil
}

// CheckJSON refuses JSON that would cost too much to decode into obj, or to compute with when it is decoded: quantities with absurd
// exponents, schemas nested too deeply. [Into] does so itself; this is for what others decode.
func CheckJSON(data []byte, obj runtime.Object) error { return bounds.Of(obj).JSON(data) }

// CheckFields is [CheckJSON] for unstructured content.
func CheckFields(content map[string]any, obj runtime.Object) error {
	return bounds.Of(obj).Fields(content)
}

// CheckDepth refuses JSON that is nested more than most deep. It need not be well-formed.
func CheckDepth(data []byte, most int) error { return bounds.Depth(data, most) }

// DeleteOptions decodes the body of a DELETE. Options may come under the version of any group. The error is a
// BadRequest Status.
func DeleteOptions(body []byte, f Format) (*metav1.DeleteOptions, error) {
	options := &metav1.DeleteOptions{}
	var err error
	switch f {
	case Protobuf:
		var env envelope
		if env, err = openEnvelope(body); err == nil {
			options.Kind, options.APIVersion = env.kind, env.apiVersion
			err = options.Unmarshal(env.raw)
		}
	case YAML:
		var data []byte
		if data, err = yaml.YAMLToJSON(body); err == nil {
			err = kjson.UnmarshalCaseSensitivePreserveInts(data, options)
		}
	default:
		if err = kjson.UnmarshalCaseSensitivePreserveInts(body, options); err != nil {
			if _, metaErr := typeMeta(body); metaErr != nil {
				err = metaErr
			}
		}
	}
	if err == nil && options.Kind != "" && options.Kind != "DeleteOptions" {
		err = errors.New("decoded object cannot be converted to DeleteOptions")
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return options, nil
}
