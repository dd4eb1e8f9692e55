package jsonscan

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

var texts = []string{
	``, ` `, `null`, `true`, `false`, `nul`, `truex`, `0`, `-0`, `01`, `-`, `1.`, `1.5`, `.5`, `1e5`, `1E+5`, `1e`, `1e-`, `-1.25e-7`, `12ab`,
	`""`, `"`, `"a"`, `"\u00e9"`, `"\u00e"`, `"\u00eg"`, `"\x"`, `"\`, "\"\x01\"", "\"\xff\"", `"<"`, "\"\u2028\"", "\"\xe2\x80\"", `"long enough text"`,
	`"eight by` + "\x00" + `"`, `"1234567\"89"`, `"12345678901234567890&"`,
	`{}`, `{ }`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1,"b":[{"c":null}]}`, `{"a":1}}`, `{,}`, `{"a":1`, `{1:2}`,
	`[]`, `[ ]`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[`, `]`, `[[[]]]`, "\t{\r\n \"a\" : [ 1 , 2 ] }\n", `"a" "b"`, "1\x00",
	strings.Repeat("[", 9999) + strings.Repeat("]", 9999), strings.Repeat("[", 10000) + strings.Repeat("]", 10000),
	strings.Repeat("[", 10001) + strings.Repeat("]", 10001), strings.Repeat(`{"a":`, 10001) + "1" + strings.Repeat("}", 10001),
}

func TestValid(t *testing.T) {
	for _, text := range texts {
		check(t, []byte(text))
	}
}

// check compares with encoding/json: validity, and that a value without a style is what compacting makes of it.
func check(t *testing.T, b []byte) {
	t.Helper()
	style, ok := Valid(b)
	if ok != json.Valid(b) {
		t.Fatalf("%.100q: valid %v", b, ok)
	}
	if !ok {
		return
	}
	compact, err := json.Marshal(json.RawMessage(b))
	if err != nil {
		t.Fatal(err)
	}
	if same := bytes.Equal(compact, b); same != (style == 0) {
		t.Fatalf("%.100q: style %d, compacted %.100q", b, style, compact)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(b, &members) != nil || members == nil {
		return
	}
	start := bytes.IndexByte(b, '{')
	found := map[string]string{}
	for i := start + 1; ; {
		m, ok := Next(b, i)
		if !ok {
			break
		}
		var key string
		if err := json.Unmarshal(b[m.KeyStart:m.KeyStart+len(m.Key)+2], &key); err != nil {
			t.Fatal(err)
		}
		found[key] = string(b[m.Start:m.End])
		i = m.End
	}
	if len(found) != len(members) {
		t.Fatalf("%q: %d members, found %d", b, len(members), len(found))
	}
	for key, value := range members {
		if found[key] != string(value) {
			t.Fatalf("%q: %q is %q, found %q", b, key, value, found[key])
		}
	}
}

func TestFind(t *testing.T) {
	b := []byte(`{"a":1, "b" : {"a":2} , "a":3}`)
	m, ok := Find(b, 0, "b")
	if !ok || string(b[m.Start:m.End]) != `{"a":2}` {
		t.Fatalf("%v %+v", ok, m)
	}
	if inner, ok := Find(b, m.Start, "a"); !ok || string(b[inner.Start:inner.End]) != "2" {
		t.Fatalf("%v %+v", ok, inner)
	}
	for _, key := range []string{"c", ""} {
		if m, ok := Find(b, 0, key); ok {
			t.Errorf("%q: %+v", key, m)
		}
	}
	for _, at := range []int{-1, 1, len(b)} {
		if m, ok := Find(b, at, "a"); ok {
			t.Errorf("at %d: %+v", at, m)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, text := range texts {
		if len(text) < 1000 {
			f.Add([]byte(text), 0)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		check(t, b)
		// From anywhere in anything: no panic, nothing outside.
		if at < 0 || at > len(b) {
			at = 0
		}
		if m, ok := Next(b, at); ok && (m.End > len(b) || m.Start > m.End || m.KeyStart < at) {
			t.Fatalf("%+v in %d bytes", m, len(b))
		}
		Find(b, at, "a")
	})
}

func BenchmarkValue(b *testing.B) {
	text := []byte(`{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:image":{}}}}}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, ok := Value(text, 0); !ok {
			b.Fatal("invalid")
		}
	}
}
