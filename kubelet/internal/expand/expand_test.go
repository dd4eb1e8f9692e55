package expand

import "testing"

func TestString(t *testing.T) {
	vars := map[string]string{"A": "1", "EMPTY": "", "REF": "$(A)"}
	for in, want := range map[string]string{
		"":             "",
		"plain":        "plain",
		"$(A)":         "1",
		"x$(A)y$(A)":   "x1y1",
		"$(NONE)":      "$(NONE)",
		"[$(EMPTY)]":   "[]",
		"$(REF)":       "$(A)", // values are not looked at again
		"$$(A)":        "$(A)",
		"$$$(A)":       "$1",
		"$$$$(A)":      "$$(A)",
		"$A":           "$A",
		"$":            "$",
		"a$":           "a$",
		"$$":           "$",
		"$(A":          "$(A",
		"$(A$(A)":      "$(A$(A)",
		"$()":          "$()",
		"$((A))":       "$((A))",
		"\u00e9$(A)\n": "\u00e91\n",
	} {
		got := String(in, func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
		if got != want {
			t.Errorf("String(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzString(f *testing.F) {
	for _, seed := range []string{"$(A)", "$$(A)", "$(A", "$$$", "a$(B)$(A)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		plain := String(s, func(string) (string, bool) { return "", false })
		doubled := ""
		for _, b := range []byte(s) { // with every dollar doubled nothing is a reference
			if b == '$' {
				doubled += "$"
			}
			doubled += string([]byte{b})
		}
		if got := String(doubled, func(string) (string, bool) { return "x", true }); got != s {
			t.Errorf("String(%q) = %q, want %q", doubled, got, s)
		}
		if len(plain) > len(s) {
			t.Errorf("String(%q) without variables grew to %q", s, plain)
		}
	})
}
