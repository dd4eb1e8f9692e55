package resource

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateRawObject checks bytes that have to be a JSON object of at most limit bytes.
func validateRawObject(raw []byte, limit int, path *field.Path) field.ErrorList {
	if len(raw) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	if limit >= 0 && len(raw) > limit {
		return field.ErrorList{field.TooLong(path, "", limit)}
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return field.ErrorList{field.Invalid(path, "<value omitted>", fmt.Sprintf("error parsing data as JSON: %v", err))}
	}
	switch value.(type) {
	case nil:
		return field.ErrorList{field.Required(path, "")}
	case map[string]any:
		return nil
	}
	return field.ErrorList{field.Invalid(path, "<value omitted>", "must be a valid JSON object")}
}
