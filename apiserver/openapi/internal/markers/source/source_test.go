package source

import (
	"bytes"
	"testing"

	"vigil/apiserver/openapi/internal/markers"
)

func TestGeneratedFileIsFresh(t *testing.T) {
	want, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(markers.JSON, want) {
		t.Error("markers.json is not what the sources say; run go generate")
	}
}
