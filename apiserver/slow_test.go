package apiserver_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"vigil/internal/eventually"
)

// TestWatch_Stalled has a client that stops reading: it must not hold up others, is counted, and is cut off.
func TestWatch_Stalled(t *testing.T) {
	t.Parallel()
	s, c, k := start(t, smallWindow)
	namespace(t, k, "a")
	rv := configMap(t, k, "a", "c1")

	config, err := rest.TLSConfigFor(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"http/1.1"}
	raw, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	// Little fits between server and client, so that the server soon waits for the client.
	if err := raw.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	config.ServerName = "127.0.0.1"
	stalled := tls.Client(raw, config)
	defer stalled.Close()
	if _, err := fmt.Fprintf(stalled, "GET /api/v1/configmaps?watch=true&resourceVersion=%s HTTP/1.1\r\nHost: x\r\n\r\n", rv); err != nil {
		t.Fatal(err)
	}
	healthy := c.watch("/api/v1/configmaps?watch=true&resourceVersion=" + rv)

	metric := func(line string) func() bool {
		return func() bool { return strings.Contains(string(c.get("/metrics").body), line) }
	}
	counted := metric(`apiserver_terminated_watchers_total{group="",resource="configmaps"} 1`)
	big := strings.Repeat("x", 500<<10)
	var last string
	for i := 0; i < 20 || !counted(); i++ {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c1"}, Data: map[string]string{"data": fmt.Sprint(i, big)}}
		updated, err := k.CoreV1().ConfigMaps("a").Update(t.Context(), cm, metav1.UpdateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		last = updated.ResourceVersion
		healthy.expect("MODIFIED c1")
	}
	eventually.True(t, "only the healthy watch is left",
		metric(`apiserver_longrunning_requests{component="apiserver",group="",resource="configmaps",scope="cluster",subresource="",verb="WATCH",version="v1"} 1`))
	if now := relabel(t, k, "a", "c1", "after=1"); healthy.expect("MODIFIED c1").Object.Metadata.ResourceVersion != now || now == last {
		t.Error("the healthy watch lost an event")
	}
}
