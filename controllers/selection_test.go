package controllers

import (
	"slices"
	"strings"
	"testing"
)

func TestSelection(t *testing.T) {
	all := len(rows)
	for _, c := range []struct {
		list string
		runs int
		off  string // one that does not run
		err  string
	}{
		{"*,bootstrap-signer-controller,token-cleaner-controller", all, "", ""},
		{"*,bootstrapsigner,tokencleaner", all, "", ""},
		{"*", all - 2, "token-cleaner-controller", ""},
		{"*,-deployment-controller", all - 3, "deployment-controller", ""},
		{"*,-deployment", all - 3, "deployment-controller", ""},
		{"-deployment-controller,deployment-controller,*", all - 3, "deployment-controller", ""},
		{"namespace-controller,garbage-collector-controller", 2, "deployment-controller", ""},
		{"*,-job-controller", all - 2, "", ""},
		{"*,-node-lifecycle-controller,-taint-eviction-controller,-podgc", all - 3, "node-lifecycle-controller", ""},
		{"*,-podgc", 0, "", "are one controller"},
		{"*,job-controller", 0, "", "job-controller is not there yet"},
		{"*,nonsense", 0, "", `"nonsense" is not in the list of known controllers`},
	} {
		s, err := newSelection(strings.Split(c.list, ","))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.list, err, c.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.list, err)
			continue
		}
		n := 0
		for i := range rows {
			if s.runs(&rows[i]) {
				n++
				if rows[i].name() == c.off {
					t.Errorf("%s: %s runs", c.list, c.off)
				}
			}
		}
		if n != c.runs {
			t.Errorf("%s: %d run, want %d", c.list, n, c.runs)
		}
	}
	for alias, name := range aliases {
		if slices.Contains(absent, alias) || name == alias {
			t.Errorf("%s is an alias of itself", alias)
		}
		if _, err := newSelection([]string{"*", "-" + name}); err != nil && !strings.Contains(err.Error(), "one controller") {
			t.Errorf("%s stands for %s: %v", alias, name, err)
		}
	}
}
