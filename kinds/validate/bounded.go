package validate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Status has each error twice, so these bound it to about half a megabyte and one error.
const (
	fewErrors     = 100       // are never cut
	maxErrorBytes = 256 << 10 // of the texts of more
)

// Bounded returns errs, cut where their texts become too long, with an error that says how many are missing. Errors may have long texts (a list of
// what would be right, say), and an object of a megabyte tens of thousands of them.
func Bounded(errs field.ErrorList) field.ErrorList {
	size := 0
	for i, err := range errs {
		if i < fewErrors {
			continue
		}
		if size += len(err.Field) + len(err.ErrorBody()); size > maxErrorBytes {
			return append(errs[:i:i], &field.Error{
				Type: field.ErrorTypeForbidden, Field: "<object>", Detail: fmt.Sprintf("%d more errors are not shown", len(errs)-i),
			})
		}
	}
	return errs
}
