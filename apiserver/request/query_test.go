package request

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzQuery compares the iterator with net/url.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{"a=b&c=d&a=e", "a", "=b", "a=%41+b", "a=%zz&b=c", "a;b=c&d=e", "&&"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		want, _ := url.ParseQuery(raw)
		got := url.Values{}
		for k, v := range Query(raw) {
			got.Add(k, v)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-net/url +got):\n%s", raw, diff)
		}
	})
}

func TestBool(t *testing.T) {
	for value, want := range map[string]bool{"": true, "true": true, "1": true, "abc": true, "0": false, "false": false, "False": false} {
		if Bool(value) != want {
			t.Errorf("%q: got %v", value, !want)
		}
	}
}

func TestParam(t *testing.T) {
	if v, ok := Param("a=1&b=2&a=3", "a"); !ok || v != "1" {
		t.Errorf("got %q, %v", v, ok)
	}
	if _, ok := Param("ab=1", "a"); ok {
		t.Error("found a parameter that is not there")
	}
}
