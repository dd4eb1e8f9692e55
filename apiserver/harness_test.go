package apiserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver/apiservertest"
)

// timeout bounds everything that a test waits for. It is no measure of speed.
const timeout = 5 * time.Minute

// client speaks plain HTTP to a test server.
type client struct {
	t    testing.TB
	http *http.Client
	url  string
}

func newClient(t testing.TB, config *rest.Config) *client {
	t.Helper()
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.CloseIdleConnections)
	return &client{t: t, http: h, url: config.Host}
}

// start starts a server and returns it with an administrator's raw and typed clients.
func start(t testing.TB, options ...apiservertest.Option) (*apiservertest.Server, *client, *kubernetes.Clientset) {
	t.Helper()
	s := apiservertest.Start(t, options...)
	return s, newClient(t, s.Admin()), s.Clientset()
}

type response struct {
	t      testing.TB
	code   int
	header http.Header
	body   []byte
}

// do sends a request. header has "Name: value" strings.
func (c *client) do(method, path, body string, header ...string) response {
	c.t.Helper()
	resp := c.open(c.t.Context(), method, path, body, header...)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("%s %s: read body: %v", method, path, err)
	}
	return response{c.t, resp.StatusCode, resp.Header, b}
}

func (c *client) open(ctx context.Context, method, path, body string, header ...string) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp
}

func (c *client) get(path string, header ...string) response {
	c.t.Helper()
	return c.do(http.MethodGet, path, "", header...)
}

// status decodes a Status.
func (r response) status() metav1.Status {
	r.t.Helper()
	var s metav1.Status
	if err := json.Unmarshal(r.body, &s); err != nil || s.Kind != "Status" {
		r.t.Fatalf("want a Status, got %d %s", r.code, r.body)
	}
	return s
}

// into decodes the body, which must come with code 200.
func (r response) into(v any) {
	r.t.Helper()
	if r.code != http.StatusOK {
		r.t.Fatalf("got %d %s", r.code, r.body)
	}
	if err := json.Unmarshal(r.body, v); err != nil {
		r.t.Fatalf("decode %s: %v", r.body, err)
	}
}

// list is any list, with the names of its items.
type list struct {
	Kind       string          `json:"kind"`
	APIVersion string          `json:"apiVersion"`
	Metadata   metav1.ListMeta `json:"metadata"`
	Items      []struct {
		Kind       string            `json:"kind"`
		APIVersion string            `json:"apiVersion"`
		Metadata   metav1.ObjectMeta `json:"metadata"`
	} `json:"items"`
}

func (l *list) names() string {
	var names []string
	for _, i := range l.Items {
		name := i.Metadata.Name
		if i.Metadata.Namespace != "" {
			name = i.Metadata.Namespace + "/" + name
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}

func (c *client) list(path string, header ...string) list {
	c.t.Helper()
	var l list
	c.get(path, header...).into(&l)
	return l
}

// stream is a running watch.
type stream struct {
	t     testing.TB
	resp  *http.Response
	lines *bufio.Reader
	stop  context.CancelFunc
}

// event is one event of a JSON watch.
type event struct {
	Type   string          `json:"type"`
	Raw    json.RawMessage `json:"object"`
	Object struct {
		Kind     string            `json:"kind"`
		Message  string            `json:"message"`
		Code     int               `json:"code"`
		Reason   string            `json:"reason"`
		Metadata metav1.ObjectMeta `json:"metadata"`
	} `json:"-"`
}

// String is what tests compare: the type, the object's name and RV where it matters.
func (e event) String() string {
	switch {
	case e.Type == "BOOKMARK" && e.Object.Metadata.Annotations[metav1.InitialEventsAnnotationKey] == "true":
		return "BOOKMARK end"
	case e.Type == "BOOKMARK":
		return "BOOKMARK"
	case e.Type == "ERROR":
		return fmt.Sprintf("ERROR %d %s", e.Object.Code, e.Object.Reason)
	}
	return e.Type + " " + e.Object.Metadata.Name
}

func (c *client) watch(path string, header ...string) *stream {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), timeout)
	c.t.Cleanup(cancel)
	resp := c.open(ctx, http.MethodGet, path, "", header...)
	c.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		c.t.Fatalf("watch %s: %d %s", path, resp.StatusCode, b)
	}
	return &stream{c.t, resp, bufio.NewReader(resp.Body), cancel}
}

// next returns the next event, ok is false at the clean end of the stream.
func (s *stream) next() (e event, ok bool) {
	s.t.Helper()
	line, err := s.lines.ReadBytes('\n')
	if err == io.EOF && len(line) == 0 {
		return e, false
	}
	if err != nil {
		s.t.Fatalf("read watch: %v (after %q)", err, line)
	}
	if err := json.Unmarshal(line, &e); err != nil {
		s.t.Fatalf("event %s: %v", line, err)
	}
	if err := json.Unmarshal(e.Raw, &e.Object); err != nil {
		s.t.Fatalf("event %s: %v", line, err)
	}
	return e, true
}

// expect reads as many events as are wanted and compares their Strings.
func (s *stream) expect(want ...string) (last event) {
	s.t.Helper()
	for i, w := range want {
		e, ok := s.next()
		if !ok {
			s.t.Fatalf("stream ended before event %d, %q", i, w)
		}
		if e.String() != w {
			s.t.Fatalf("event %d: got %q (%s), want %q", i, e, e.Raw, w)
		}
		last = e
	}
	return last
}

// expectEnd reads the clean end of the stream.
func (s *stream) expectEnd() {
	s.t.Helper()
	if e, ok := s.next(); ok {
		s.t.Fatalf("got %q, want the end of the stream", e)
	}
}

// configMap creates a config map with labels "k=v" and returns its resource version.
func configMap(t testing.TB, c *kubernetes.Clientset, namespace, name string, labels ...string) string {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}, Data: map[string]string{"name": name}}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		cm.Labels[k] = v
	}
	made, err := c.CoreV1().ConfigMaps(namespace).Create(t.Context(), cm, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made.ResourceVersion
}

// relabel changes the labels of a config map and returns its resource version.
func relabel(t testing.TB, c *kubernetes.Clientset, namespace, name string, labels ...string) string {
	t.Helper()
	cm, err := c.CoreV1().ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cm.Labels = map[string]string{}
	for _, l := range labels {
		k, v, _ := strings.Cut(l, "=")
		cm.Labels[k] = v
	}
	if cm, err = c.CoreV1().ConfigMaps(namespace).Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return cm.ResourceVersion
}

func remove(t testing.TB, c *kubernetes.Clientset, namespace, name string) {
	t.Helper()
	if err := c.CoreV1().ConfigMaps(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func namespace(t testing.TB, c *kubernetes.Clientset, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
