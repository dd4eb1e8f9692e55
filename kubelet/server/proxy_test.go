package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

var localhost = []net.IP{net.IPv4(127, 0, 0, 1)}

// admin is an administrator's client that follows no redirects.
func (c *cluster) admin(t testing.TB) *http.Client {
	t.Helper()
	client, err := rest.HTTPClientFor(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return client
}

func do(t testing.TB, client *http.Client, method, url string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader("sent"))
	if err != nil {
		t.Fatal(err)
	}
	if method == "GET" {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	response, err := client.Do(req)
	return body(t, response, err)
}

// site is what runs in a pod.
func site(t *testing.T) (port int) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		fmt.Fprintf(w, "%s %s %s auth=%q from=%q", r.Method, r.URL, data, r.Header["Authorization"], r.Header["X-Remote-User"])
	})
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<a href="/other">x</a>`)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/page", http.StatusFound) })
	mux.HandleFunc("/socket", func(w http.ResponseWriter, r *http.Request) {
		conn, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		kind, data, err := conn.ReadMessage()
		if err == nil {
			err = conn.WriteMessage(kind, append([]byte("got "), data...))
		}
		if err != nil {
			t.Error(err)
		}
	})
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(mux)
	s.Listener.Close()
	s.Listener = listener
	s.Start()
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

func TestProxy(t *testing.T) {
	c := start(t)
	port := site(t)
	targets := []string{"pods/web:" + strconv.Itoa(port), "pods/http:web:" + strconv.Itoa(port)}
	if ip := address(); ip == "" {
		t.Log("NOT TESTED: services, as this machine has no address beside loopback")
	} else {
		c.serve(t, ip, port)
		targets = append(targets, "services/site:80", "services/site:named", "services/http:site:80", "services/old:80")
	}
	client := c.admin(t)
	base := c.URL + "/api/v1/namespaces/default/"
	for _, to := range targets {
		at := base + to + "/proxy"
		for _, tc := range []struct {
			method, path string
			code         int
			want         string
		}{
			{"GET", "/a/b?c=d", 200, `GET /a/b?c=d  auth=[] from=[]`},
			{"PUT", "/a/", 200, `PUT /a/ sent auth=[] from=[]`},
			{"PATCH", "/x", 200, `PATCH /x sent auth=[] from=[]`},
			{"OPTIONS", "/x", 200, `OPTIONS /x sent auth=[] from=[]`},
			{"GET", "", 301, ""},
			{"GET", "/", 200, "GET /  auth=[] from=[]"},
			{"GET", "/page", 200, `<a href="` + strings.TrimPrefix(at, c.URL) + `/other">x</a>`},
		} {
			code, text := do(t, client, tc.method, at+tc.path, "Authorization: Basic eDp5", "X-Remote-User: root")
			if code != tc.code || text != tc.want && tc.want != "" {
				t.Errorf("%s %s%s: got %d %s, want %d %s", tc.method, to, tc.path, code, text, tc.code, tc.want)
			}
		}
		response, err := client.Get(at + "/moved")
		if code, _ := body(t, response, err); code != 302 || response.Header.Get("Location") != strings.TrimPrefix(at, c.URL)+"/page" {
			t.Errorf("%s: redirected to %d %q", to, code, response.Header.Get("Location"))
		}
		conf, err := rest.TLSConfigFor(c.Admin())
		if err != nil {
			t.Fatal(err)
		}
		conn, upgraded, err := (&websocket.Dialer{TLSClientConfig: conf}).Dial(strings.Replace(at, "https", "wss", 1)+"/socket", nil)
		if err != nil {
			t.Errorf("%s: open a WebSocket: %v", to, err)
			continue
		}
		upgraded.Body.Close()
		if err := conn.WriteMessage(websocket.TextMessage, []byte("hello")); err != nil {
			t.Error(err)
		}
		if _, data, err := conn.ReadMessage(); err != nil || string(data) != "got hello" {
			t.Errorf("%s: WebSocket: %q, %v", to, data, err)
		}
		conn.Close()
	}
}

// serve makes the service old with Endpoints, and the service site with endpoints: the pod there, an address that is no pod's, and one that says it is ready and is not there.
func (c *cluster) serve(t *testing.T, ip string, port int) {
	t.Helper()
	there := c.pod(t, "there", "main")
	there.Status.PodIP, there.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	if _, err := c.client.CoreV1().Pods("default").UpdateStatus(t.Context(), there, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "site"}, Spec: corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Name: "named", Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.client.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: corev1.ServiceSpec{ClusterIP: "None", Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := func(name string) *corev1.ObjectReference {
		return &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: name}
	}
	_, err = c.client.CoreV1().Endpoints("default").Create(t.Context(), &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Name: "old"},
		Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: ip, TargetRef: pod("there")}},
			Ports:     []corev1.EndpointPort{{Port: int32(port)}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.client.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "site-1", Labels: map[string]string{discoveryv1.LabelServiceName: "site"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("named"), Port: new(int32(port))}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"192.0.2.1"}},
			{Addresses: []string{"192.0.2.2"}, TargetRef: pod("there")}, // which has another address
			{Addresses: []string{"192.0.2.3"}, TargetRef: pod("gone")},
			{Addresses: []string{"192.0.2.4"}, TargetRef: pod("there"), Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
			{Addresses: []string{ip}, TargetRef: pod("there")},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNodeProxy(t *testing.T) {
	c := start(t)
	client := c.admin(t)
	port := site(t)
	base := c.URL + "/api/v1/nodes/"
	code, text := do(t, client, "GET", base+nodeName+"/proxy/pods")
	if code != 200 || !strings.HasPrefix(text, `{"kind":"PodList","apiVersion":"v1"`) || !strings.Contains(text, `"name":"web"`) {
		t.Errorf("pods: %d %s", code, text)
	}
	code, text = do(t, client, "GET", fmt.Sprintf("%s%s:%d/proxy/healthz", base, nodeName, c.port))
	if code != 200 || text != "ok" {
		t.Errorf("healthz by port: %d %s", code, text)
	}
	code, text = do(t, client, "GET", fmt.Sprintf("%s%s:%d/proxy/x", base, nodeName, port))
	if code != 200 || text != "GET /x  auth=[] from=[]" {
		t.Errorf("another port: %d %s", code, text)
	}
	code, text = do(t, client, "POST", base+nodeName+"/proxy/run/default/web/main?cmd=ls+-l")
	if code != 200 || text != "fake://web-main ran ls,-l" {
		t.Errorf("run: %d %s", code, text)
	}
	if code, text = do(t, client, "GET", base+"gone/proxy/pods"); code != 404 || !strings.Contains(text, `nodes \"gone\" not found`) {
		t.Errorf("no such node: %d %s", code, text)
	}
}
