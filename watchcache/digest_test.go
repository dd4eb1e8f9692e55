package watchcache

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"vigil/object"
)

// A digest must never hide an object that is selected; that it lets some others through is no harm.
func TestDigest(t *testing.T) {
	s := newServer(noStore{}, Config{}, defaultTuning)
	rnd := rand.New(rand.NewPCG(3, 4))
	word := func(n int) string { return fmt.Sprintf("w%d", rnd.IntN(n)) }
	passed, selected, all := 0, 0, 0
	for range 3000 {
		obj := &corev1.Pod{}
		obj.Name = "p"
		if n := rnd.IntN(8); n > 0 {
			obj.Labels = map[string]string{}
			for range n {
				obj.Labels[word(20)] = fmt.Sprint(rnd.IntN(5))
			}
		}
		v, err := object.FromObject(podType, "/registry/pods/a/p", 5, obj)
		if err != nil {
			t.Fatal(err)
		}
		var terms []string
		for range 1 + rnd.IntN(2) {
			key, value := word(20), rnd.IntN(5)
			terms = append(terms, []string{
				key, "!" + key, fmt.Sprintf("%s=%d", key, value), fmt.Sprintf("%s!=%d", key, value), fmt.Sprintf("%s in (%d)", key, value),
				fmt.Sprintf("%s in (%d,%d)", key, value, value+1), fmt.Sprintf("%s notin (%d)", key, value), fmt.Sprintf("%s>%d", key, value),
				fmt.Sprintf("%s<%d", key, value),
			}[rnd.IntN(9)])
		}
		sel := mustLabels(t, strings.Join(terms, ","))
		matches, may := sel.Matches(v.Labels()), s.digester.of(v).may(s.digester.needs(sel))
		if matches && !may {
			t.Fatalf("%v is selected by %q, and the digest says no", obj.Labels, sel)
		}
		all++
		if may {
			passed++
		}
		if matches {
			selected++
		}
	}
	if passed > selected+all/6 || selected == 0 {
		t.Errorf("of %d objects the digest lets %d pass, and %d are selected: it is of little use", all, passed, selected)
	}
}
