package apiserver_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/internal/eventually"
)

// TestWatch_StalledHTTP2 has clients that stop reading: one on a connection of its own, one beside a watch that goes on. Nobody else
// is held up, the cache counts them, and once they read again, however late, they learn that they have lost events.
func TestWatch_StalledHTTP2(t *testing.T) {
	t.Parallel()
	s, c, k := start(t, smallWindow, func(c *apiserver.Config) { c.WatchLastChance = time.Hour })
	namespace(t, k, "a")
	path := "/api/v1/configmaps?watch=true&resourceVersion=" + configMap(t, k, "a", "c1")
	healthy := []*stream{c.watch(path), c.watch(path), newClient(t, s.Admin()).watch(path)}
	stalled := []*stream{c.watch(path), newClient(t, s.Admin()).watch(path)}
	updates := outgrowStalled(t, c, k, len(stalled), healthy)
	for _, w := range stalled {
		n := 0
		for e, ok := w.next(); ; e, ok = w.next() {
			if !ok {
				t.Fatalf("ended after %d events without being told why", n)
			}
			if e.Type == "ERROR" {
				if e.String() != "ERROR 410 Expired" {
					t.Errorf("got %s", e)
				}
				break
			}
			n++
		}
		w.expectEnd()
		if n == 0 || n >= updates {
			t.Errorf("got %d events before the end", n)
		}
	}
	relabel(t, k, "a", "c1", "after=1")
	for _, w := range healthy {
		w.expect("MODIFIED c1")
	}
}

// TestWatch_NeverReadHTTP2 has clients that stop reading and do not begin again: they are cut off, and the watch beside one of them is not.
func TestWatch_NeverReadHTTP2(t *testing.T) {
	t.Parallel()
	s, c, k := start(t, smallWindow, func(c *apiserver.Config) { c.WatchLastChance = time.Millisecond })
	namespace(t, k, "a")
	path := "/api/v1/configmaps?watch=true&resourceVersion=" + configMap(t, k, "a", "c1")
	healthy := []*stream{c.watch(path)}
	dead := []*stream{c.watch(path), newClient(t, s.Admin()).watch(path)}
	outgrowStalled(t, c, k, len(dead), healthy)
	eventually.True(t, "those that never read are cut off", func() bool {
		return strings.Contains(string(c.get("/metrics").body),
			`apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps",scope="cluster",subresource="",verb="WATCH",version="v1"} 1`+"\n")
	})
	for _, w := range dead {
		if _, err := io.Copy(io.Discard, w.resp.Body); err == nil {
			t.Error("one that never reads ended in good order")
		}
	}
	relabel(t, k, "a", "c1", "after=1")
	healthy[0].expect("MODIFIED c1")
}

// outgrowStalled updates config map c1 of namespace a until the cache has counted as many watches as have lost events, and 20 times at least.
// The healthy ones see each update. It returns the number of updates.
func outgrowStalled(t *testing.T, c *client, k *kubernetes.Clientset, stalled int, healthy []*stream) (updates int) {
	t.Helper()
	counted := fmt.Sprintf("apiserver_terminated_watchers_total{group=\"\",resource=\"configmaps\"} %d\n", stalled)
	big := strings.Repeat("x", 500<<10)
	for ; updates < 20 || !strings.Contains(string(c.get("/metrics").body), counted); updates++ {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Data: map[string]string{"data": fmt.Sprint(updates, big)}}
		if _, err := k.CoreV1().ConfigMaps("a").Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, w := range healthy {
			w.expect("MODIFIED c1")
		}
	}
	return updates
}

// TestWatch_SmallWindows: a client that opens its window by little gets every byte.
func TestWatch_SmallWindows(t *testing.T) {
	t.Parallel()
	s, _, k := start(t)
	namespace(t, k, "a")
	data := map[string]string{"data": strings.Repeat("0123456789", 20<<10)}
	for i := range 3 {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}, Data: data}
		if _, err := k.CoreV1().ConfigMaps("a").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, accept := range []string{"application/json", "application/vnd.kubernetes.protobuf;stream=watch"} {
		c := dialFramer(t, s, 7)
		c.get("/api/v1/configmaps?watch=true&allowWatchBookmarks=true&timeoutSeconds=1", accept)
		body := c.body(func(n int) uint32 { return uint32(n + rand.IntN(30_000)) })
		if accept != "application/json" {
			if got := bytes.Count(body, []byte("0123456789")); got < 3*20<<10 {
				t.Errorf("protobuf: got %d bytes with %d of %d digits", len(body), got, 3*20<<10)
			}
			continue
		}
		var got []string
		for line := range bytes.Lines(body) {
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatalf("line %.200q: %v", line, err)
			}
			if err := json.Unmarshal(e.Raw, &e.Object); err != nil {
				t.Fatal(err)
			}
			got = append(got, e.String())
		}
		if all := strings.Join(got, ", "); !strings.HasPrefix(all, "ADDED c0, ADDED c1, ADDED c2, BOOKMARK end") {
			t.Errorf("got %s", all)
		}
	}
}

// framer is an HTTP/2 client of which the test decides when it opens its windows. It has one stream.
type framer struct {
	*http2.Framer
	t    testing.TB
	conn *tls.Conn
}

// dialFramer connects with an initial window of so many bytes.
func dialFramer(t testing.TB, s *apiservertest.Server, window uint32) *framer {
	t.Helper()
	config, err := rest.TLSConfigFor(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	return dialFramerAs(t, s, config, window)
}

// dialFramerAs is dialFramer with other credentials.
func dialFramerAs(t testing.TB, s *apiservertest.Server, config *tls.Config, window uint32) *framer {
	t.Helper()
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	f := &framer{http2.NewFramer(conn, conn), t, conn}
	f.must(f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}))
	return f
}

func (f *framer) must(err error) {
	if err != nil {
		f.t.Helper()
		f.t.Fatal(err)
	}
}

// get asks for path; more are further header fields, name and value.
func (f *framer) get(path, accept string, more ...string) {
	f.t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, h := range [][2]string{{":method", http.MethodGet}, {":scheme", "https"}, {":authority", "x"}, {":path", path}, {"accept", accept}} {
		f.must(enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]}))
	}
	for i := 0; i < len(more); i += 2 {
		f.must(enc.WriteField(hpack.HeaderField{Name: more[i], Value: more[i+1]}))
	}
	f.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}))
}

// body reads the response to its end. After each frame of n bytes it opens the window by open(n).
func (f *framer) body(open func(n int) uint32) (body []byte) {
	f.t.Helper()
	for {
		frame, err := f.ReadFrame()
		f.must(err)
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				f.must(f.WriteSettingsAck())
			}
		case *http2.DataFrame:
			body = append(body, frame.Data()...)
			if frame.StreamEnded() {
				return body
			}
			n := open(len(frame.Data()))
			f.must(f.WriteWindowUpdate(0, n))
			f.must(f.WriteWindowUpdate(1, n))
		case *http2.RSTStreamFrame:
			f.t.Fatalf("reset with %v after %d bytes", frame.ErrCode, len(body))
		case *http2.GoAwayFrame:
			f.t.Fatalf("GOAWAY %v %s", frame.ErrCode, frame.DebugData())
		}
	}
}
