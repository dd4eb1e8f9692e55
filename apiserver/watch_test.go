package apiserver_test

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
)

// TestWatch_Start goes through the start states of docs/list-watch.md section 6.
func TestWatch_Start(t *testing.T) {
	t.Parallel()
	_, c, k := start(t)
	namespace(t, k, "a")
	first := configMap(t, k, "a", "c1")
	last := configMap(t, k, "a", "c2")
	const path = "/api/v1/namespaces/a/configmaps?watch=true&"
	for _, tc := range []struct {
		name, query string
		want        []string
	}{
		{"any", "resourceVersion=0", []string{"ADDED c1", "ADDED c2"}},
		{"newest", "", []string{"ADDED c1", "ADDED c2"}},
		{"newest with bookmarks", "allowWatchBookmarks=true", []string{"ADDED c1", "ADDED c2", "BOOKMARK end"}},
		{"initial", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", []string{"ADDED c1", "ADDED c2", "BOOKMARK end"}},
		{"initial of any", "resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1", []string{"ADDED c1", "ADDED c2", "BOOKMARK end"}},
		{"initial of N", "resourceVersion=" + first + "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true", []string{"ADDED c1", "ADDED c2", "BOOKMARK end"}},
		{"initial without bookmarks", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan", []string{"ADDED c1", "ADDED c2"}},
		{"no initial, newest", "sendInitialEvents=false&resourceVersionMatch=NotOlderThan", nil},
		{"no initial, any", "resourceVersion=0&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", nil},
		{"no initial, N", "resourceVersion=" + first + "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan", []string{"ADDED c2"}},
		{"N", "resourceVersion=" + first, []string{"ADDED c2"}},
		{"newest N", "resourceVersion=" + last, nil},
		{"one name", "fieldSelector=metadata.name%3Dc2", []string{"ADDED c2"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := c.watch(path + tc.query)
			if got := w.resp.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type %q", got)
			}
			for i, want := range tc.want {
				e := w.expect(want)
				if n, _ := strconv.Atoi(last); want == "BOOKMARK end" {
					if got, _ := strconv.Atoi(e.Object.Metadata.ResourceVersion); got < n {
						t.Errorf("event %d: bookmark at %d, want at least %d", i, got, n)
					}
					if e.Object.Kind != "ConfigMap" {
						t.Errorf("bookmark of kind %q", e.Object.Kind)
					}
				}
			}
			rv := relabel(t, k, "a", "c2", "t="+strconv.Itoa(len(tc.name)), "n="+strings.ReplaceAll(strings.ReplaceAll(tc.name, " ", ""), ",", ""))
			for w.expect("MODIFIED c2").Object.Metadata.ResourceVersion != rv {
				// A watch from an old version also sees what the other cases did.
			}
		})
	}
}

func TestWatch_Events(t *testing.T) {
	t.Parallel()
	_, c, k := start(t)
	namespace(t, k, "a")
	rv := configMap(t, k, "a", "c0")
	all := c.watch("/api/v1/configmaps?watch=1&resourceVersion=" + rv)
	selected := c.watch("/api/v1/configmaps?watch=1&labelSelector=app%3Dx&resourceVersion=" + rv)
	legacy := c.watch("/api/v1/watch/configmaps?resourceVersion=" + rv)
	legacyNamed := c.watch("/api/v1/watch/namespaces/a/configmaps/c1?resourceVersion=" + rv)

	configMap(t, k, "a", "c1", "app=x")
	relabel(t, k, "a", "c1", "app=x", "more=1")
	left := relabel(t, k, "a", "c1", "app=y")
	relabel(t, k, "a", "c1", "app=x")
	remove(t, k, "a", "c1")
	end := configMap(t, k, "a", "c2")

	all.expect("ADDED c1", "MODIFIED c1", "MODIFIED c1", "MODIFIED c1", "DELETED c1")
	if e := all.expect("ADDED c2"); e.Object.Metadata.ResourceVersion != end {
		t.Errorf("last event at %s, want %s", e.Object.Metadata.ResourceVersion, end)
	}
	legacy.expect("ADDED c1", "MODIFIED c1", "MODIFIED c1", "MODIFIED c1", "DELETED c1", "ADDED c2")
	legacyNamed.expect("ADDED c1", "MODIFIED c1", "MODIFIED c1", "MODIFIED c1", "DELETED c1")

	selected.expect("ADDED c1", "MODIFIED c1")
	gone := selected.expect("DELETED c1")
	if gone.Object.Metadata.ResourceVersion != left || gone.Object.Metadata.Labels["more"] != "1" {
		t.Errorf("an object that left the selection: at %s with labels %v, want the content before, at %s", gone.Object.Metadata.ResourceVersion, gone.Object.Metadata.Labels, left)
	}
	selected.expect("ADDED c1", "DELETED c1")
}

// TestWatch_Errors goes through what a watch answers with: an error of its own before it starts, an ERROR event after.
func TestWatch_Errors(t *testing.T) {
	t.Parallel()
	_, c, k := start(t, smallWindow)
	namespace(t, k, "a")
	old := configMap(t, k, "a", "c1")
	rv := outgrow(t, k, "a", "c1")
	const invalid = "ListOptions.meta.k8s.io \"\" is invalid: "
	for _, tc := range []struct {
		query   string
		code    int
		message string
	}{
		{"sendInitialEvents=true", 422, invalid + "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"},
		{"resourceVersion=5&resourceVersionMatch=NotOlderThan", 422, invalid + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"},
		{"resourceVersion=5&sendInitialEvents=true&resourceVersionMatch=Exact", 422, invalid + `[resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan, resourceVersionMatch: Unsupported value: "Exact": supported values: "NotOlderThan"]`},
		{"continue=x", 422, invalid + "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided"},
		{"resourceVersion=abc", 400, `invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid syntax`},
		{"resourceVersion=5&fieldSelector=spec.foo%3Dbar", 400, `"spec.foo" is not a known field selector: only "metadata.name", "metadata.namespace"`},
		{"timeoutSeconds=x", 400, `strconv.ParseInt: parsing "x": invalid syntax`},
	} {
		r := c.get("/api/v1/configmaps?watch=true&" + tc.query)
		if r.code != tc.code || r.status().Message != tc.message {
			t.Errorf("%s: got %d %s, want %d %s", tc.query, r.code, r.body, tc.code, tc.message)
		}
	}
	if r := c.get("/api/v1/watch/namespaces/a/configmaps/c1?resourceVersion=5&fieldSelector=metadata.name%3Dc2"); r.code != 400 || r.status().Message != "fieldSelector metadata.name doesn't match requested name" {
		t.Errorf("contradicting names: got %d %s", r.code, r.body)
	}

	t.Run("too old", func(t *testing.T) {
		w := c.watch("/api/v1/configmaps?watch=true&resourceVersion=" + old)
		e := w.expect("ERROR 410 Expired")
		if !strings.HasPrefix(e.Object.Message, "too old resource version: "+old+" (") {
			t.Errorf("got message %q", e.Object.Message)
		}
		w.expectEnd()
	})

	t.Run("ahead", func(t *testing.T) {
		n, _ := strconv.ParseInt(rv, 10, 64)
		w := c.watch("/api/v1/configmaps?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=" + strconv.FormatInt(n+1000000, 10))
		e := w.expect("ERROR 504 Timeout")
		var s metav1.Status
		if err := json.Unmarshal(e.Raw, &s); err != nil || s.Details == nil || len(s.Details.Causes) != 1 || s.Details.Causes[0].Type != metav1.CauseTypeResourceVersionTooLarge {
			t.Errorf("got %s", e.Raw)
		}
		w.expectEnd()
	})

	t.Run("a plain watch may be ahead", func(t *testing.T) {
		n, _ := strconv.ParseInt(rv, 10, 64)
		w := c.watch("/api/v1/configmaps?watch=true&resourceVersion=" + strconv.FormatInt(n+1, 10))
		relabel(t, k, "a", "c1", "skipped=1")
		want := relabel(t, k, "a", "c1", "seen=1")
		if e := w.expect("MODIFIED c1"); e.Object.Metadata.ResourceVersion != want {
			t.Errorf("event at %s, want %s", e.Object.Metadata.ResourceVersion, want)
		}
	})
}

func TestWatch_Timeout(t *testing.T) {
	t.Parallel()
	_, c, k := start(t)
	namespace(t, k, "a")
	configMap(t, k, "a", "c1")
	const attempts = 5 // a machine that is slow now and then brings the bookmark late, but not each time
	for attempt := 1; ; attempt++ {
		began := time.Now()
		w := c.watch("/api/v1/configmaps?watch=true&timeoutSeconds=3&allowWatchBookmarks=true")
		w.expect("ADDED c1", "BOOKMARK end")
		w.expect("BOOKMARK") // two seconds before the end
		last := time.Now()
		w.expectEnd()
		if took := time.Since(began); took < 3*time.Second {
			t.Errorf("ended after %v, want 3 s", took)
		}
		if before := time.Since(last); before > time.Second {
			break
		} else if attempt == attempts {
			t.Errorf("last bookmark %v before the end, want 2 s", before)
			break
		}
	}
	w := c.watch("/api/v1/configmaps?watch=true&timeoutSeconds=1")
	w.expect("ADDED c1")
	w.expectEnd()
}

func TestWatch_Bookmarks(t *testing.T) {
	t.Parallel()
	_, c, k := start(t, func(c *apiserver.Config) { c.BookmarkEvery = 50 * time.Millisecond })
	namespace(t, k, "a")
	namespace(t, k, "b")
	rv := configMap(t, k, "a", "c1")
	w := c.watch("/api/v1/namespaces/a/configmaps?watch=true&allowWatchBookmarks=true&resourceVersion=" + rv)
	// Bookmarks move on with changes that the watch does not select.
	want, _ := strconv.Atoi(configMap(t, k, "b", "c1"))
	for {
		e := w.expect("BOOKMARK")
		got, _ := strconv.Atoi(e.Object.Metadata.ResourceVersion)
		if got >= want {
			break
		}
	}
}

// TestWatch_Forms watches in every encoding, over HTTP/1.1, HTTP/2 and WebSocket.
func TestWatch_Forms(t *testing.T) {
	t.Parallel()
	s, c, k := start(t)
	namespace(t, k, "a")
	rv := configMap(t, k, "a", "c1", "app=x")
	const path = "/api/v1/configmaps?watch=true&allowWatchBookmarks=true"
	const proto = "application/vnd.kubernetes.protobuf;stream=watch"

	t.Run("HTTP/2", func(t *testing.T) {
		w := c.watch(path)
		if w.resp.ProtoMajor != 2 {
			t.Errorf("got %s", w.resp.Proto)
		}
		w.expect("ADDED c1", "BOOKMARK end")
	})
	t.Run("HTTP/1.1", func(t *testing.T) {
		config := s.Admin()
		config.NextProtos = []string{"http/1.1"}
		w := newClient(t, config).watch(path)
		if w.resp.ProtoMajor != 1 || len(w.resp.TransferEncoding) != 1 || w.resp.TransferEncoding[0] != "chunked" {
			t.Errorf("got %s, %v", w.resp.Proto, w.resp.TransferEncoding)
		}
		w.expect("ADDED c1", "BOOKMARK end")
	})
	t.Run("protobuf", func(t *testing.T) {
		w := c.watch(path, "Accept: "+proto+",application/json")
		if got := w.resp.Header.Get("Content-Type"); got != proto {
			t.Errorf("Content-Type %q", got)
		}
		frame := func() (metav1.WatchEvent, runtime.Unknown) {
			t.Helper()
			var head [4]byte
			if _, err := io.ReadFull(w.lines, head[:]); err != nil {
				t.Fatal(err)
			}
			body := make([]byte, binary.BigEndian.Uint32(head[:]))
			if _, err := io.ReadFull(w.lines, body); err != nil {
				t.Fatal(err)
			}
			var e metav1.WatchEvent
			if err := e.Unmarshal(body); err != nil {
				t.Fatal(err)
			}
			var u runtime.Unknown
			if string(e.Object.Raw[:4]) != "k8s\x00" || u.Unmarshal(e.Object.Raw[4:]) != nil {
				t.Fatalf("object %q", e.Object.Raw)
			}
			return e, u
		}
		e, u := frame()
		var cm corev1.ConfigMap
		if err := cm.Unmarshal(u.Raw); err != nil || e.Type != "ADDED" || u.Kind != "ConfigMap" || cm.Name != "c1" || cm.ResourceVersion != rv || cm.Data["name"] != "c1" {
			t.Errorf("got %s %s %v %v", e.Type, u.Kind, cm, err)
		}
		e, u = frame()
		cm = corev1.ConfigMap{}
		if err := cm.Unmarshal(u.Raw); err != nil || e.Type != "BOOKMARK" || cm.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
			t.Errorf("got %s %v %v", e.Type, cm, err)
		}
	})
	t.Run("metadata", func(t *testing.T) {
		w := c.watch(path, "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
		e := w.expect("ADDED c1")
		if e.Object.Kind != "PartialObjectMetadata" || e.Object.Metadata.Labels["app"] != "x" || strings.Contains(string(e.Raw), `"data"`) {
			t.Errorf("got %s", e.Raw)
		}
		if e = w.expect("BOOKMARK end"); e.Object.Kind != "PartialObjectMetadata" {
			t.Errorf("got %s", e.Raw)
		}
	})
	t.Run("table", func(t *testing.T) {
		w := c.watch(path, "Accept: application/json;as=Table;g=meta.k8s.io;v=v1")
		read := func(typ string) metav1.Table {
			t.Helper()
			e, _ := w.next()
			var table metav1.Table
			if err := json.Unmarshal(e.Raw, &table); err != nil || e.Type != typ || table.Kind != "Table" || len(table.Rows) != 1 {
				t.Fatalf("got %s %s, %v", e.Type, e.Raw, err)
			}
			return table
		}
		first := read("ADDED")
		if len(first.ColumnDefinitions) == 0 || first.ColumnDefinitions[0].Name != "Name" || first.Rows[0].Cells[0] != "c1" || !strings.Contains(string(first.Rows[0].Object.Raw), "PartialObjectMetadata") {
			t.Errorf("got %+v", first)
		}
		mark := read("BOOKMARK")
		if len(mark.ColumnDefinitions) != 0 || len(mark.Rows[0].Cells) != len(first.ColumnDefinitions) || mark.Rows[0].Cells[0] != "" || mark.Rows[0].Cells[1] != nil ||
			!strings.Contains(string(mark.Rows[0].Object.Raw), metav1.InitialEventsAnnotationKey) {
			t.Errorf("got %+v", mark)
		}
	})
	t.Run("not acceptable", func(t *testing.T) {
		for _, accept := range []string{"application/yaml", "application/cbor", "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1"} {
			r := c.get(path, "Accept: "+accept)
			want := "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
			if r.code != http.StatusNotAcceptable {
				t.Errorf("%s: got %d %s", accept, r.code, r.body)
			} else if accept == "application/cbor" && r.status().Message != want {
				t.Errorf("%s: got %q", accept, r.status().Message)
			}
		}
	})
	t.Run("websocket", func(t *testing.T) {
		config, err := rest.TLSConfigFor(s.Admin())
		if err != nil {
			t.Fatal(err)
		}
		dialer := websocket.Dialer{TLSClientConfig: config}
		conn, _, err := dialer.Dial(strings.Replace(s.URL, "https", "wss", 1)+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, want := range []string{"ADDED c1", "BOOKMARK end"} {
			typ, msg, err := conn.ReadMessage()
			if err != nil || typ != websocket.TextMessage {
				t.Fatalf("got message type %d, %v", typ, err)
			}
			var e event
			if json.Unmarshal(msg, &e) != nil || json.Unmarshal(e.Raw, &e.Object) != nil || e.String() != want {
				t.Errorf("got %s, want %s", msg, want)
			}
		}
	})
}
