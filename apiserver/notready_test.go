package apiserver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"vigil/apiserver/apiservertest"
)

// TestNotReady asks a server whose caches have not been loaded.
func TestNotReady(t *testing.T) {
	handler := apiservertest.Prepare(t).Handler("admin", "system:masters")
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	for _, path := range []string{"/api/v1/pods", "/api/v1/pods?resourceVersion=0", "/api/v1/namespaces/a/pods/p", "/api/v1/pods?resourceVersion=5"} {
		w := get(path)
		var status struct{ Message, Reason string }
		if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil {
			t.Fatal(err)
		}
		if w.Code != http.StatusTooManyRequests || status.Reason != "TooManyRequests" || status.Message != "storage is (re)initializing" || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: got %d %+v, Retry-After %q", path, w.Code, status, w.Header().Get("Retry-After"))
		}
	}
	// A watch has begun by then: it is told inside of the stream.
	w := get("/api/v1/pods?watch=true")
	if want := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1",`; w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), want) || !strings.Contains(w.Body.String(), `"code":429`) {
		t.Errorf("watch: got %d %s", w.Code, w.Body)
	}
	if w := get("/readyz"); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "[-]informer-sync failed") {
		t.Errorf("readyz: got %d %s", w.Code, w.Body)
	}
	if w := get("/livez"); w.Code != http.StatusOK {
		t.Errorf("livez: got %d %s", w.Code, w.Body)
	}
}
