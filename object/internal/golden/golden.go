// Package golden gives tests the encoded examples of every kind that k8s.io/api ships in its testdata folder, and the
// scheme that knows their Go types.
package golden

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apidiscoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	imagepolicyv1alpha1 "k8s.io/api/imagepolicy/v1alpha1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Case is one object in its encodings.
type Case struct {
	Release  string // folder: "HEAD", "v1.36.0"
	Kind     schema.GroupVersionKind
	Protobuf []byte // with envelope
	JSON     []byte // indented; nil when the folder has none for this variant
}

// Name is unique among the cases.
func (c *Case) Name() string {
	return c.Release + "/" + c.Kind.Group + "." + c.Kind.Version + "." + c.Kind.Kind
}

// Message returns what the envelope holds.
func (c *Case) Message(tb testing.TB) []byte {
	var unknown runtime.Unknown
	if err := unknown.Unmarshal(c.Protobuf[4:]); err != nil {
		tb.Fatalf("%s: open envelope: %v", c.Name(), err)
	}
	return unknown.Raw
}

// Load reads all examples of all releases. Examples of kinds that no longer have a Go type are left out, except that
// every kind of HEAD must have one. It fails the test when k8s.io/api is not where the go command says.
func Load(tb testing.TB) []Case {
	tb.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/api").Output()
	if err != nil {
		tb.Fatalf("locate k8s.io/api: %v", err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "testdata", "*", "*.pb"))
	if err != nil || len(files) < 500 {
		tb.Fatalf("k8s.io/api has %d examples (%v)", len(files), err)
	}
	scheme := Scheme(tb)
	var cases []Case
	for _, file := range files {
		c, ok := parseName(file)
		if !ok {
			continue // the same object after a round trip through another version
		}
		if !scheme.Recognizes(c.Kind) {
			if c.Release == "HEAD" {
				tb.Fatalf("%s has no Go type", file)
			}
			continue
		}
		if c.Protobuf, err = os.ReadFile(file); err != nil {
			tb.Fatal(err)
		}
		c.JSON, _ = os.ReadFile(strings.TrimSuffix(file, ".pb") + ".json")
		cases = append(cases, c)
	}
	return cases
}

// parseName takes "…/HEAD/apps.v1.Deployment.pb" apart.
func parseName(file string) (Case, bool) {
	base := strings.TrimSuffix(filepath.Base(file), ".pb")
	parts := strings.Split(base, ".")
	if len(parts) < 3 {
		return Case{}, false
	}
	kind, version, group := parts[len(parts)-1], parts[len(parts)-2], strings.Join(parts[:len(parts)-2], ".")
	if group == "core" {
		group = ""
	}
	c := Case{Release: filepath.Base(filepath.Dir(file))}
	c.Kind = schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	return c, !strings.HasSuffix(base, "after_roundtrip")
}

// Scheme returns a scheme with every type of k8s.io/api.
func Scheme(tb testing.TB) *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		scheme.AddToScheme, admissionv1.AddToScheme, admissionv1beta1.AddToScheme, apidiscoveryv2.AddToScheme,
		apidiscoveryv2beta1.AddToScheme, imagepolicyv1alpha1.AddToScheme, lifecyclev1alpha1.AddToScheme,
	} {
		if err := add(s); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}
