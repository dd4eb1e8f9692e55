package decode

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// explainJSON says what is wrong with a body that could not be decoded as a gvk (cause), or that is of another kind
// (cause nil). What the body calls itself is looked at first, since a foreign kind has foreign fields.
func explainJSON(data, original []byte, gvk schema.GroupVersionKind, cause error) error {
	actual, err := typeMeta(data)
	if err != nil {
		return unrecognized(gvk, err, original)
	}
	if actual = withDefaults(actual, gvk); actual != gvk {
		return otherKind(actual, gvk)
	}
	return cannotHandle(actual, gvk, cause)
}

// typeMeta reads the kind and version of a JSON object.
func typeMeta(data []byte) (schema.GroupVersionKind, error) {
	var meta struct {
		APIVersion string `json:"apiVersion,omitempty"`
		Kind       string `json:"kind,omitempty"`
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	gv, err := schema.ParseGroupVersion(meta.APIVersion)
	if err != nil {
		return schema.GroupVersionKind{}, err
	}
	return gv.WithKind(meta.Kind), nil
}

// withDefaults completes what a body leaves open about its kind.
func withDefaults(actual, want schema.GroupVersionKind) schema.GroupVersionKind {
	if actual.Kind == "" {
		actual.Kind = want.Kind
	}
	if actual.Version == "" && (actual.Group == "" || actual.Group == want.Group) {
		actual.Group, actual.Version = want.Group, want.Version
	}
	return actual
}

func otherKind(actual, want schema.GroupVersionKind) error {
	switch {
	case !scheme.Scheme.Recognizes(actual):
		return cannotHandle(actual, want, runtime.NewNotRegisteredErrForKind(scheme.Scheme.Name(), actual))
	case actual.GroupKind() == want.GroupKind():
		return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", actual.GroupVersion(), want.GroupVersion()))
	default:
		return cannotHandle(actual, want, fmt.Errorf("converting (%s.%s) to (%s.%s): unknown conversion", actual.Version, actual.Kind, want.Version, want.Kind))
	}
}

func cannotHandle(actual, want schema.GroupVersionKind, cause error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", actual.Kind, actual.Version, want.Kind, cause))
}

func unrecognized(want schema.GroupVersionKind, cause error, body []byte) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, cause, summary(body)))
}

// summary shows the beginning of a body: text of JSON objects, hexadecimal of anything else.
func summary(body []byte) string {
	const most = 30
	head, more := body, ""
	if len(body) > most {
		head, more = body[:most], " ..."
	}
	switch {
	case len(body) == 0:
		return "<empty>"
	case body[0] == '{':
		return string(head) + more
	default:
		return hex.EncodeToString(head) + more
	}
}

// Warnings turns what strict decoding found into warnings. Errors of the YAML parser hold several, one to a line.
func Warnings(problems []error) []string {
	if len(problems) == 0 {
		return nil
	}
	warnings := make([]string, 0, len(problems))
	for _, p := range problems {
		text := strings.TrimPrefix(p.Error(), "error converting YAML to JSON: ")
		lines, ok := strings.CutPrefix(text, "yaml: unmarshal errors:\n")
		if !ok {
			warnings = append(warnings, p.Error())
			continue
		}
		for line := range strings.SplitSeq(lines, "\n") {
			warnings = append(warnings, strings.TrimSpace(line))
		}
	}
	return warnings
}
