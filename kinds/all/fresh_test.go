package all

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"vigil/kinds/all/internal/source"
)

func TestRows_Fresh(t *testing.T) {
	want, err := source.Rows("..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("rows.go")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("rows.go is not what go generate ./kinds/all makes (-fresh +file):\n%s", diff)
	}
}
