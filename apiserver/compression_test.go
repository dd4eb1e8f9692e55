package apiserver_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Lists are the same with and without gzip or deflate, in every form, over HTTP/1.1 and HTTP/2, for the first time and again, and when
// objects have changed.
func TestCompression_Lists(t *testing.T) {
	s, c, k := start(t)
	namespace(t, k, "bench")
	var rv string
	for i := range 150 {
		pod, err := k.CoreV1().Pods("bench").Create(t.Context(), benchPod(i), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rv = pod.ResourceVersion
	}
	old := s.Admin()
	old.NextProtos = []string{"http/1.1"}
	http1 := newClient(t, old)
	coding := "gzip"
	for round := range 4 {
		if round == 2 {
			coding = "deflate"
		}
		for proto, c := range map[string]*client{"HTTP/1.1": http1, "HTTP/2.0": c} {
			for _, accept := range []string{
				"application/json", "application/vnd.kubernetes.protobuf",
				"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", "application/json;as=Table;g=meta.k8s.io;v=v1",
			} {
				for query, large := range map[string]bool{
					"":                                   true,
					"&labelSelector=app+notin+(app-3)":   true,
					"&limit=100":                         true,
					"&limit=1":                           false,
					"&labelSelector=app%3Dapp-7":         false,
					"&labelSelector=app%3Dnope":          false,
					"&fieldSelector=spec.nodeName%3Dn-1": false,
				} {
					path := "/api/v1/pods?resourceVersionMatch=Exact&resourceVersion=" + rv + query
					name := fmt.Sprintf("round %d, %s, %s, %s", round, proto, accept, query)
					plain := c.get(path, "Accept: "+accept, "Accept-Encoding: identity")
					resp := c.open(t.Context(), http.MethodGet, path, "", "Accept: "+accept, "Accept-Encoding: "+coding)
					body, err := io.ReadAll(resp.Body)
					if err != nil || resp.StatusCode != 200 || plain.code != 200 || resp.Proto != proto {
						t.Fatalf("%s: %d and %d over %s, %v", name, plain.code, resp.StatusCode, resp.Proto, err)
					}
					resp.Body.Close()
					packed := resp.Header.Get("Content-Encoding") == coding
					if direct := !strings.Contains(accept, "as="); direct && packed != large {
						t.Errorf("%s: compressed %v", name, packed)
					}
					if packed {
						if body, err = unpack(coding, body); err != nil {
							t.Fatalf("%s: %v", name, err)
						}
						if resp.Header.Get("Vary") != "Accept-Encoding" {
							t.Errorf("%s: Vary %q", name, resp.Header.Get("Vary"))
						}
					}
					// Tables have ages in them.
					if !bytes.Equal(body, plain.body) && !strings.Contains(accept, "Table") {
						t.Errorf("%s: %d bytes became %d others", name, len(plain.body), len(body))
					}
				}
			}
		}
		for i := range 5 {
			patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"round":"%d"}}}`, round)
			pod, err := k.CoreV1().Pods("bench").Patch(context.Background(), fmt.Sprintf("pod-%05d", i*i*i), types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil {
				t.Fatal(err)
			}
			rv = pod.ResourceVersion
		}
	}
	if metrics := string(c.get("/metrics").body); strings.Contains(metrics, "apiserver_compressed_list_bytes 0\n") {
		t.Error("no compressed forms were kept")
	}
}

// unpack undoes a content coding.
func unpack(coding string, body []byte) ([]byte, error) {
	var z io.Reader
	var err error
	if coding == "deflate" {
		z, err = zlib.NewReader(bytes.NewReader(body))
	} else {
		z, err = gzip.NewReader(bytes.NewReader(body))
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}
