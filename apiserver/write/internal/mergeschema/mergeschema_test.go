package mergeschema_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/structured-merge-diff/v6/schema"

	"vigil/apiserver/write/internal/mergeschema"
	"vigil/apiserver/write/internal/mergeschema/source"
)

// TestSchema holds the generated text against client-go's schema, both ways.
func TestSchema(t *testing.T) {
	want, err := source.Types()
	if err != nil {
		t.Fatal(err)
	}
	text, err := source.Write(want)
	if err != nil {
		t.Fatal(err)
	}
	if text != mergeschema.Text {
		t.Error("schema.txt is not what go generate makes of client-go's schema now")
	}
	got, err := mergeschema.Read(mergeschema.Text)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < 900 {
		t.Errorf("%d types", len(got))
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(schema.Map{})); diff != "" {
		t.Errorf("client-go's schema (-) is read as (+):\n%s", diff)
	}
}

// TestRead_Refusals: a text that is cut or damaged is an error, not a schema.
func TestRead_Refusals(t *testing.T) {
	for _, text := range []string{
		"a", "a number\n", "a string\n\tb string\n", "a {\n\tb [atomic]\n", "a {\n\tb [atomic:string\n", "a {\n\tb {:string\n", "a {\n\tb string =x\n", "a {\n\tb string x\n",
	} {
		if types, err := mergeschema.Read(text); err == nil {
			t.Errorf("%s is read as %+v", strings.ReplaceAll(text, "\n", "|"), types)
		}
	}
}

// BenchmarkTypes is what a start pays for.
func BenchmarkTypes(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mergeschema.Types()
	}
}
