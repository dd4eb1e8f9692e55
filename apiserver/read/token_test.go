package read

import (
	"path"
	"strings"
	"testing"
)

func TestToken(t *testing.T) {
	for _, want := range []token{{Revision: 5, Start: "default/w2\x00"}, {Revision: newest, Start: "w2\x00"}} {
		got, err := decodeToken(want.encode())
		want.Version = tokenVersion
		if err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

func FuzzDecodeToken(f *testing.F) {
	f.Add(token{Revision: 5, Start: "a/b\x00"}.encode())
	f.Add("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6LTEsInN0YXJ0IjoiLi4vIn0")
	f.Fuzz(func(t *testing.T, s string) {
		tok, err := decodeToken(s)
		if err != nil {
			return
		}
		if strings.HasPrefix(tok.Start, "/") || path.Clean("/registry/pods/"+tok.Start) != "/registry/pods/"+tok.Start {
			t.Errorf("%q: start %q leaves the prefix", s, tok.Start)
		}
	})
}
