package validate

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestParseQuantity(t *testing.T) {
	for text, want := range map[string]error{
		"1": nil, "100m": nil, "1.5Gi": nil, "2E": nil, "3Ei": nil, "12e6": nil, "-1E-3": nil, "1e400": nil, "179769313486231570e291": nil, strings.Repeat("9", 309): nil,
		"1e401": resource.ErrSuffix, "1E-401": resource.ErrSuffix, "1e+300000000": resource.ErrSuffix, " 1e300000000\n": resource.ErrSuffix, "1e99999999999999999999": resource.ErrSuffix,
		"1e4294967296": resource.ErrSuffix, "1e0000000000401": resource.ErrSuffix, strings.Repeat("9", 801): resource.ErrNumeric,
		"": resource.ErrFormatWrong, "x": resource.ErrFormatWrong, "1e1e1": resource.ErrFormatWrong,
	} {
		if _, err := ParseQuantity(text); !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%.40q: got %v, want %v", text, err, want)
		}
	}
}
