package respond

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWarning(t *testing.T) {
	long := strings.Repeat("ä", 3000)
	for _, tc := range []struct {
		name  string
		texts []string
		want  []string
	}{
		{"none", nil, nil},
		{"quoted", []string{`unknown field "a\b"`}, []string{`299 - "unknown field \"a\\b\""`}},
		{"control characters", []string{"a\nb"}, []string{`299 - "a b"`}},
		{"repeated", []string{"a", "b", "a"}, []string{`299 - "a"`, `299 - "b"`}},
		{"long alone", []string{long}, []string{`299 - "` + long + `"`}},
		{"over the budget", []string{long, long + "x"}, []string{`299 - "` + long[:512] + `"`, `299 - "` + long[:512] + `"`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			Warning(w, tc.texts)
			if diff := cmp.Diff(tc.want, w.Header()["Warning"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprint(i, strings.Repeat("x", 200)))
	}
	w := httptest.NewRecorder()
	Warning(w, many)
	if n := len(w.Header()["Warning"]); n != 4096/202 && n != 4096/201 && n != 20 {
		t.Errorf("%d warnings of 201 runes within a budget of 4096", n)
	}
}

func TestStatus(t *testing.T) {
	notFound := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "x")
	for _, tc := range []struct {
		err     error
		code    int32
		message string
	}{
		{notFound, 404, `pods "x" not found`},
		{fmt.Errorf("look: %w", notFound), 404, `pods "x" not found`},
		{errors.New("broken"), 500, "Internal error occurred: broken"},
	} {
		s := Status(tc.err)
		if s.Code != tc.code || s.Message != tc.message || s.Kind != "Status" || s.APIVersion != "v1" || s.Status != "Failure" {
			t.Errorf("%v: got %+v", tc.err, s)
		}
	}
}

func TestAcceptsEncoding(t *testing.T) {
	for header, want := range map[string]string{
		"": "", "gzip": "gzip", "deflate": "deflate", "deflate, gzip": "gzip", "gzip;q=0": "", "gzip;q=0, deflate": "deflate",
		"br": "", "gzip; q=0.5": "gzip", "identity": "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if header != "" {
			r.Header.Set("Accept-Encoding", header)
		}
		if got := AcceptsEncoding(r); got != want {
			t.Errorf("%q: got %q, want %q", header, got, want)
		}
	}
}

func TestBody_Threshold(t *testing.T) {
	for _, tc := range []struct {
		size   int
		coding string
	}{{0, ""}, {CompressAbove, ""}, {CompressAbove + 1, "gzip"}} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		b := NewBody(w, r, http.StatusOK)
		chunk := make([]byte, 1000)
		for n := 0; n < tc.size; n += len(chunk) {
			chunk = chunk[:min(len(chunk), tc.size-n)]
			if _, err := b.Write(chunk); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if got := w.Header().Get("Content-Encoding"); got != tc.coding {
			t.Errorf("%d bytes: coding %q, want %q", tc.size, got, tc.coding)
		}
		if tc.coding == "" && (w.Body.Len() != tc.size || w.Header().Get("Content-Length") != fmt.Sprint(tc.size)) {
			t.Errorf("%d bytes: sent %d with length %q", tc.size, w.Body.Len(), w.Header().Get("Content-Length"))
		}
	}
}
