package decode

import (
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Format is the encoding of a request body.
type Format int

const (
	JSON Format = iota
	YAML
	Protobuf
)

// mediaTypes are the accepted ones in the order in which errors list them.
var mediaTypes = []string{"application/json", "application/yaml", "application/vnd.kubernetes.protobuf"}

// FormatOf reads a Content-Type header. None at all means JSON; parameters do not matter. The error is a 415 Status.
func FormatOf(contentType string) (Format, error) {
	switch MediaType(contentType) {
	case "", "application/json":
		return JSON, nil
	case "application/yaml":
		return YAML, nil
	case "application/vnd.kubernetes.protobuf":
		return Protobuf, nil
	default:
		return 0, UnsupportedMediaType(mediaTypes)
	}
}

// MediaType is a Content-Type without its parameters, in lower case.
func MediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// UnsupportedMediaType is the Status of a body that is none of the accepted media types.
func UnsupportedMediaType(accepted []string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusUnsupportedMediaType,
		Reason:  metav1.StatusReasonUnsupportedMediaType,
		Message: fmt.Sprintf("the body of the request was in an unknown format - accepted media types include: %s", strings.Join(accepted, ", ")),
	}}
}

// Validation says what becomes of fields that a kind does not have and of duplicates.
type Validation int

const (
	Warn   Validation = iota // keep going, one warning each
	Ignore                   // keep going in silence
	Strict                   // refuse the body
)

// ParseValidation reads the fieldValidation parameter, whose value has been checked already.
func ParseValidation(s string) Validation {
	switch s {
	case metav1.FieldValidationIgnore:
		return Ignore
	case metav1.FieldValidationStrict:
		return Strict
	default:
		return Warn
	}
}
