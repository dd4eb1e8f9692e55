package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// wantErrors compares errors by what clients see of them: path, type and text.
func wantErrors(t *testing.T, got field.ErrorList, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, errorTexts(got)); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func errorTexts(errs field.ErrorList) []string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, err.Error())
	}
	return texts
}

// wantSame compares objects, lists of warnings and the like.
func wantSame(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func ptr[T any](v T) *T { return &v }
