package validate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestChecks(t *testing.T) {
	at := field.NewPath("f")
	badValue := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"b c"}}}}
	const badLabel = `f.matchExpressions[0].values[0]: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`
	minus := int32(-1)
	for _, tc := range []struct {
		name string
		got  field.ErrorList
		want string // the only error; "" for none
	}{
		{"zero", NonNegative(0, at), ``},
		{"negative", NonNegative(-1, at), `f: Invalid value: -1: must be greater than or equal to 0`},
		{"absent", NonNegativePtr[int32](nil, at), ``},
		{"negative pointer", NonNegativePtr(&minus, at), `f: Invalid value: -1: must be greater than or equal to 0`},
		{"nil and empty", Immutable([]string{}, []string(nil), at), ``},
		{"changed", Immutable("a", "b", at), `f: Invalid value: "a": field is immutable`},
		{"in list", OneOf("a", at, "a", "b"), ``},
		{"not in list", OneOf("c", at, "a", "b"), `f: Unsupported value: "c": supported values: "a", "b"`},
		{"empty", OneOf("", at, "a"), `f: Required value`},
		{"empty and optional", OneOfOrEmpty("", at, "a"), ``},
		{"selector", LabelSelector(badValue, at), badLabel},
		{"selector of old", LabelSelectorUpdate(badValue, badValue, at), ``},
		{"selector that was fine", LabelSelectorUpdate(badValue, &metav1.LabelSelector{}, at), badLabel},
		{"percent", IntOrPercent(intstr.FromString("25%"), at), ``},
		{"no percent", IntOrPercent(intstr.FromString("25"), at), `f: Invalid value: "25": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')`},
		{"negative number", IntOrPercent(intstr.FromInt32(-1), at), `f: Invalid value: -1: must be greater than or equal to 0`},
		{"100%", NotOver100Percent(intstr.FromString("100%"), at), ``},
		{"101%", NotOver100Percent(intstr.FromString("101%"), at), `f: Invalid value: "101%": must not be greater than 100%`},
		{"101", NotOver100Percent(intstr.FromInt32(101), at), ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var want, got []string
			if tc.want != "" {
				want = []string{tc.want}
			}
			for _, err := range tc.got {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestIntOrPercentValue(t *testing.T) {
	for in, want := range map[intstr.IntOrString]int{
		intstr.FromInt32(3): 3, intstr.FromString("25%"): 25, intstr.FromString("0%"): 0,
	} {
		if got := IntOrPercentValue(in); got != want {
			t.Errorf("%s: %d, want %d", in.String(), got, want)
		}
	}
}
