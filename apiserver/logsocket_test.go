package apiserver_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
)

// TestLogSocket reads and follows a log over a WebSocket, as a page in a browser does.
func TestLogSocket(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 1)
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello\n")
		if r.URL.Query().Get("follow") != "" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			gone <- struct{}{}
		}
	}))
	defer kubelet.Close()
	host, port, err := net.SplitHostPort(kubelet.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	s, _, k := start(t, func(c *apiserver.Config) { c.Connections.AllowLoopback = true }) // where the kubelet is
	namespace(t, k, "a")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(number)}},
	}}
	if _, err := k.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "c", Image: "demo"}}}}
	if _, err := k.CoreV1().Pods("a").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config, err := rest.TLSConfigFor(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	dial := func(query string, offered ...string) (*websocket.Conn, *http.Response, error) {
		dialer := websocket.Dialer{TLSClientConfig: config, Subprotocols: offered}
		return dialer.Dial(strings.Replace(s.URL, "https", "wss", 1)+"/api/v1/namespaces/a/pods/p/log"+query, nil)
	}
	for _, test := range []struct {
		offered  []string
		selected []string
		typ      int
		want     string
	}{
		{nil, nil, websocket.BinaryMessage, "hello\n"},
		{[]string{"binary.k8s.io"}, []string{"binary.k8s.io"}, websocket.BinaryMessage, "hello\n"},
		{[]string{"v9.something", "base64.binary.k8s.io"}, []string{"base64.binary.k8s.io"}, websocket.TextMessage, "aGVsbG8K"},
	} {
		conn, answer, err := dial("", test.offered...)
		if err != nil {
			t.Fatalf("%v: %v", test.offered, err)
		}
		if got := answer.Header.Values("Sec-Websocket-Protocol"); !slices.Equal(got, test.selected) {
			t.Errorf("%v: selected %v, want %v", test.offered, got, test.selected)
		}
		var got []string
		for {
			typ, text, err := conn.ReadMessage()
			if err != nil {
				if !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
					t.Errorf("%v: ended with %v", test.offered, err)
				}
				break
			}
			if typ != test.typ {
				t.Errorf("%v: message type %d, want %d", test.offered, typ, test.typ)
			}
			got = append(got, string(text))
		}
		conn.Close()
		if !slices.Equal(got, []string{"", test.want}) {
			t.Errorf("%v: messages %q, want an empty one and %q", test.offered, got, test.want)
		}
	}
	if conn, answer, err := dial("", "v9.something"); err == nil {
		conn.Close()
		t.Error("a client that knows no protocol of ours got in")
	} else if answer == nil || answer.StatusCode != http.StatusBadRequest {
		t.Errorf("unknown protocol: %v, %v", answer, err)
	}
	// The kubelet is left alone when the client closes.
	conn, _, err := dial("?follow=true", "base64.binary.k8s.io")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"", "aGVsbG8K"} {
		if _, text, err := conn.ReadMessage(); err != nil || string(text) != want {
			t.Fatalf("followed %q, %v, want %q", text, err, want)
		}
	}
	conn.Close()
	<-gone
}
