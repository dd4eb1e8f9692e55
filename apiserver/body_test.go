package apiserver_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"vigil/apiserver"
)

// TestBody_NeverEnds: a request of which the body does not come to its end is answered when its time is up.
func TestBody_NeverEnds(t *testing.T) {
	t.Parallel()
	s, c, k := start(t, func(c *apiserver.Config) { c.RequestTimeout = time.Second })
	namespace(t, k, "a")
	for _, proto := range []string{"http/1.1", "h2"} {
		config, err := rest.TLSConfigFor(s.Admin())
		if err != nil {
			t.Fatal(err)
		}
		transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: proto == "h2"}
		defer transport.CloseIdleConnections()
		body, feed := io.Pipe()
		defer feed.Close()
		go func() { _, _ = io.WriteString(feed, `{"kind":"ConfigMap","apiVersion":"v1",`) }()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/api/v1/namespaces/a/configmaps", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := (&http.Client{Transport: transport, Timeout: timeout}).Do(req)
		if err != nil {
			t.Fatalf("%s: %v", proto, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusGatewayTimeout || strings.HasPrefix(resp.Proto, "HTTP/2") != (proto == "h2") {
			t.Errorf("%s: %s %s", proto, resp.Proto, resp.Status)
		}
	}
	if body := string(c.get("/metrics").body); !strings.Contains(body, `apiserver_http2_stream_timeouts_total{reason="body"} 1`) {
		t.Errorf("the timeout is not counted:\n%s", body)
	}
}
