package apiserver_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"vigil/apiserver"
)

func compressWatches(c *apiserver.Config) { c.WatchCompression = true }

// inflate lets a stream be read that has the given coding.
func (s *stream) inflate(coding string) {
	s.t.Helper()
	if got := s.resp.Header.Get("Content-Encoding"); got != coding {
		s.t.Fatalf("Content-Encoding %q, want %q", got, coding)
	}
	var z io.Reader
	var err error
	if coding == "gzip" {
		z, err = gzip.NewReader(s.resp.Body)
	} else {
		z, err = zlib.NewReader(s.resp.Body)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.lines = bufio.NewReader(z)
}

// TestWatch_Compression: every event arrives when it happens and the stream ends in good order, checksum included, over both versions of
// HTTP, in both codings.
func TestWatch_Compression(t *testing.T) {
	t.Parallel()
	s, c, k := start(t, compressWatches)
	old := s.Admin()
	old.NextProtos = []string{"http/1.1"}
	var open []*stream
	for proto, c := range map[string]*client{"HTTP/1.1": newClient(t, old), "HTTP/2.0": c} {
		for _, coding := range []string{"gzip", "deflate"} {
			for _, accept := range []string{"application/json", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"} {
				ns := fmt.Sprint("n", len(open))
				namespace(t, k, ns)
				configMap(t, k, ns, "c", "note="+strings.Repeat("x", 60))
				w := c.watch("/api/v1/namespaces/"+ns+"/configmaps?watch=true&allowWatchBookmarks=true&timeoutSeconds=1", "Accept-Encoding: "+coding, "Accept: "+accept)
				if w.resp.Proto != proto {
					t.Fatal(w.resp.Proto)
				}
				w.inflate(coding)
				w.expect("ADDED c", "BOOKMARK end")
				relabel(t, k, ns, "c", "round=1")
				w.expect("MODIFIED c")
				open = append(open, w)
			}
		}
	}
	for _, w := range open {
		w.expectEnd()
	}
}

// TestWatch_CompressedLists: without the flag a watch is compressed if it takes the place of a list and its client accepts that, as upstream.
func TestWatch_CompressedLists(t *testing.T) {
	t.Parallel()
	_, c, k := start(t)
	namespace(t, k, "a")
	configMap(t, k, "a", "c")
	const path = "/api/v1/namespaces/a/configmaps?watch=true&allowWatchBookmarks=true"
	const instead = path + "&resourceVersionMatch=NotOlderThan&sendInitialEvents="

	w := c.watch(instead+"true", "Accept-Encoding: gzip")
	w.inflate("gzip")
	if got := w.resp.Header.Get("Vary"); got != "Accept-Encoding" {
		t.Errorf("Vary %q", got)
	}
	w.expect("ADDED c", "BOOKMARK end")
	relabel(t, k, "a", "c", "round=1")
	w.expect("MODIFIED c")

	for name, plain := range map[string]struct {
		path, accepted string
		want           []string
	}{
		"the client does not accept it": {instead + "true", "identity", []string{"ADDED c", "BOOKMARK end"}},
		"no initial events":             {instead + "false", "gzip", nil},
		"a watch as ever":               {path, "gzip", []string{"ADDED c", "BOOKMARK end"}},
	} {
		w := c.watch(plain.path, "Accept-Encoding: "+plain.accepted)
		if got := w.resp.Header.Get("Content-Encoding"); got != "" {
			t.Errorf("%s: Content-Encoding %q", name, got)
		}
		w.expect(plain.want...)
		relabel(t, k, "a", "c", "round="+strings.ReplaceAll(name, " ", "-"))
		w.expect("MODIFIED c")
	}
}

// TestWatch_CompressionForms: what a compressed watch says is what a plain one says, in every form.
func TestWatch_CompressionForms(t *testing.T) {
	t.Parallel()
	_, c, k := start(t, compressWatches)
	namespace(t, k, "a")
	for i := range 3 {
		configMap(t, k, "a", fmt.Sprint("c", i))
	}
	const path = "/api/v1/namespaces/a/configmaps?watch=true&timeoutSeconds=1"
	var wg sync.WaitGroup
	for _, accept := range []string{
		"application/json", "application/vnd.kubernetes.protobuf;stream=watch",
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
		"application/json;as=Table;g=meta.k8s.io;v=v1",
	} {
		wg.Go(func() {
			resp := c.open(t.Context(), http.MethodGet, path, "", "Accept: "+accept, "Accept-Encoding: gzip")
			defer resp.Body.Close()
			plain := c.get(path, "Accept: "+accept, "Accept-Encoding: identity")
			z, err := gzip.NewReader(resp.Body)
			if err != nil {
				t.Errorf("%s: %v", accept, err)
				return
			}
			got, err := io.ReadAll(z)
			if err != nil {
				t.Errorf("%s: %v", accept, err)
			}
			got, want := ages.ReplaceAll(got, nil), ages.ReplaceAll(plain.body, nil)
			if len(want) == 0 || !bytes.Equal(got, want) {
				t.Errorf("%s: got %q, want %q", accept, got, want)
			}
		})
	}
	wg.Wait()
}

// ages are what tables say about the time since an object was made.
var ages = regexp.MustCompile(`"[0-9]+s"`)
