package store

import "testing"

func TestResourceOf(t *testing.T) {
	for key, want := range map[string]string{
		"pods/default/a":                "pods",
		"pods/":                         "pods",
		"minions/n1":                    "minions",
		"services/specs/default/a":      "services/specs",
		"services/endpoints/default/a":  "services/endpoints",
		"example.com/widgets/default/a": "example.com/widgets",
		"example.com/widgets/":          "example.com/widgets",
		"compact_rev_key":               "compact_rev_key",
		"":                              "",
	} {
		if got := resourceOf(key); got != want {
			t.Errorf("resource of %q is %q, want %q", key, got, want)
		}
	}
}
