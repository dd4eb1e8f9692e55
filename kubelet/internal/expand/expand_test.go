package expand

import (
	"errors"
	"testing"
)

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
		lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
		got, err := String(in, lookup, len(want))
		if got != want || err != nil {
			t.Errorf("String(%q) = %q, %v, want %q", in, got, err, want)
		}
		if want == "" {
			continue
		}
		if got, err := String(in, lookup, len(want)-1); !errors.Is(err, ErrTooLong) {
			t.Errorf("String(%q) of at most %d bytes = %q, %v", in, len(want)-1, got, err)
		}
	}
}

func FuzzString(f *testing.F) {
	for _, seed := range []string{"$(A)", "$$(A)", "$(A", "$$$", "a$(B)$(A)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		plain, err := String(s, func(string) (string, bool) { return "", false }, len(s))
		if err != nil {
			t.Errorf("String(%q) without variables: %v", s, err)
		}
		doubled := ""
		for _, b := range []byte(s) { // with every dollar doubled nothing is a reference
			if b == '$' {
				doubled += "$"
			}
			doubled += string([]byte{b})
		}
		if got, err := String(doubled, func(string) (string, bool) { return "x", true }, len(s)); got != s || err != nil {
			t.Errorf("String(%q) = %q, %v, want %q", doubled, got, err, s)
		}
		if len(plain) > len(s) {
			t.Errorf("String(%q) without variables grew to %q", s, plain)
		}
	})
}
