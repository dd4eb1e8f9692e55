package managed

import (
	"strings"
	"testing"
)

// Each selection of a set's members is taken out as the library takes it out.
func TestWithout(t *testing.T) {
	const set = `{"f:metadata":{"f:annotations":{".":{},"f:a/b":{},"f:q\"x":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{}}}},"f:status":{}}`
	members := [][]string{
		{`"f:metadata"`, `"f:annotations"`}, {`"f:metadata"`, `"f:annotations"`, `"f:a/b"`}, {`"f:metadata"`, `"f:annotations"`, `"f:q\"x"`},
		{`"f:spec"`}, {`"f:spec"`, `"f:absent"`},
		{`"f:spec"`, `"f:containers"`, `"k:{\"name\":\"c\"}"`}, {`"f:spec"`, `"f:containers"`, `"k:{\"name\":\"c\"}"`, `"f:image"`},
		{`"f:status"`},
	}
	whole, err := decode([]byte(set))
	if err != nil {
		t.Fatal(err)
	}
	for chosen := range 1 << len(members) {
		var gone paths
		var e encoder
		e.reset()
		gone.reset()
		for i, path := range members {
			if chosen>>i&1 != 0 {
				gone.add(path)
				e.member(path)
			}
		}
		removed, err := decode(e.set())
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if left := whole.Difference(removed); !left.Empty() {
			b, err := left.ToJSON()
			if err != nil {
				t.Fatal(err)
			}
			want = string(b)
		}
		if got := string(lost{&gone, &gone}.from(nil, []byte(set))); got != want {
			t.Errorf("without %s\ngot  %s\nwant %s", strings.Join(strings.Fields(string(e.set())), ""), got, want)
		}
	}
}
