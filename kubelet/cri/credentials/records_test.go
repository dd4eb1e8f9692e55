package credentials

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestRecords(t *testing.T) {
	const image, id = "registry.example.com/app:1", "sha256:1"
	ann := Credential{Login: Login{"ann", "a"}, Source: Source{"one", "pull", "1"}}
	sameLogin := Credential{Login: Login{"ann", "a"}, Source: Source{"two", "pull", "2"}}
	newPassword := Credential{Login: Login{"ann", "b"}, Source: Source{"one", "pull", "1"}}
	other := Credential{Login: Login{"bob", "b"}, Source: Source{"two", "pull", "3"}}
	plugin := Credential{Login: Login{"node", "n"}}
	tests := []struct {
		name  string
		with  []*Credential // of pulls, one after another
		image string        // "": the one that was pulled
		pod   []Credential
		want  bool
	}{
		{name: "preloaded", want: true},
		{name: "anonymous", with: []*Credential{nil}, want: true},
		{name: "the node's own", with: []*Credential{&plugin}, want: true},
		{name: "without credentials", with: []*Credential{&ann}},
		{name: "the same secret", with: []*Credential{&ann}, pod: []Credential{ann}, want: true},
		{name: "the same login", with: []*Credential{&ann}, pod: []Credential{other, sameLogin}, want: true},
		{name: "the same secret with another password", with: []*Credential{&ann}, pod: []Credential{newPassword}, want: true},
		{name: "another login", with: []*Credential{&ann}, pod: []Credential{other}},
		{name: "either of two", with: []*Credential{&ann, &other}, pod: []Credential{other}, want: true},
		{name: "public since", with: []*Credential{&ann, nil, &ann}, want: true},
		{name: "another tag", with: []*Credential{&ann}, image: "registry.example.com/app:2", pod: []Credential{ann}, want: true},
		{name: "another name", with: []*Credential{&ann}, image: "registry.example.com/other:1", pod: []Credential{ann}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			r := NewRecords(dir)
			for _, with := range test.with {
				if err := r.Begin(image); err != nil {
					t.Fatal(err)
				}
				if err := r.Succeed(image, id, with); err != nil {
					t.Fatal(err)
				}
			}
			asked := image
			if test.image != "" {
				asked = test.image
			}
			got, err := NewRecords(dir).MayUse(asked, id, func() []Credential { return test.pod })
			if err != nil || got != test.want {
				t.Errorf("%t, %v", got, err)
			}
		})
	}
}

// A pull that nobody saw the end of may have needed credentials.
func TestRecords_Intent(t *testing.T) {
	const image, id = "app:1", "sha256:1"
	none := func() []Credential { return nil }
	r := NewRecords(t.TempDir())
	for range 2 {
		if err := r.Begin(image); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Fail(image); err != nil {
		t.Fatal(err)
	}
	if got, err := NewRecords(r.dir).MayUse(image, id, none); got || err != nil {
		t.Errorf("while a pull is under way: %t, %v", got, err)
	}
	if err := r.Fail(image); err != nil {
		t.Fatal(err)
	}
	if got, err := r.MayUse(image, id, none); !got || err != nil {
		t.Errorf("after it: %t, %v", got, err)
	}
}

func TestRecords_Prune(t *testing.T) {
	r := NewRecords(t.TempDir())
	for _, id := range []string{"sha256:1", "sha256:2"} {
		if err := r.Succeed("app:1", id, nil); err != nil {
			t.Fatal(err)
		}
	}
	there := map[string]struct{}{"sha256:2": {}}
	count := func() int {
		files, err := os.ReadDir(filepath.Join(r.dir, "pulled"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	if err := r.Prune(there, time.Now().Add(-time.Hour)); err != nil || count() != 2 {
		t.Errorf("%d records, %v: what is new is not to go", count(), err)
	}
	if err := r.Prune(there, time.Now().Add(time.Hour)); err != nil || count() != 1 {
		t.Errorf("%d records, %v", count(), err)
	}
}
