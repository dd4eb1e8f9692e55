package validate

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestBounded(t *testing.T) {
	path := field.NewPath("spec", "names")
	list := func(n int, detail string) (errs field.ErrorList) {
		for i := range n {
			errs = append(errs, field.Invalid(path.Index(i), "x", detail))
		}
		return errs
	}
	for _, tc := range []struct{ n, length, want int }{
		{1, 10, 1}, {100, 100_000, 100}, {2000, 10, 2000}, {50_000, 10, 7000}, {1000, 100_000, 103},
	} {
		errs := list(tc.n, strings.Repeat("y", tc.length))
		got := Bounded(errs)
		if n := len(got); n > tc.want || n < tc.want*3/4 {
			t.Errorf("%d errors of %d bytes became %d, want about %d", tc.n, tc.length, n, tc.want)
		}
		if last := got[len(got)-1]; len(got) < tc.n && !strings.HasSuffix(last.Error(), " more errors are not shown") {
			t.Errorf("the last error is %v", last)
		}
		if tc.n <= tc.want && len(got) != tc.n {
			t.Errorf("%d errors were cut", tc.n)
		}
	}
}
