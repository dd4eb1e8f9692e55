package kindtest

import (
	_ "embed"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"vigil/kinds"
)

//go:embed samples.yaml
var samples string

// Sample returns a small valid object of a stored row in JSON, as a client sends it: with apiVersion and kind, without a
// namespace. A row without one in samples.yaml fails the test.
func Sample(t testing.TB, row *kinds.Kind) []byte {
	t.Helper()
	for text := range strings.SplitSeq(samples, "\n---\n") {
		var kind struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
			t.Fatalf("samples.yaml: %v in:\n%s", err, text)
		}
		if schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind) != row.GVK {
			continue
		}
		body, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			t.Fatalf("samples.yaml: %v in:\n%s", err, text)
		}
		return body
	}
	t.Fatalf("samples.yaml has no %v", row.GVK)
	return nil
}
