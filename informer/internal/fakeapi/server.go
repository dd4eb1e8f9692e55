// Package fakeapi is an API server for pods that remembers: it speaks HTTP over TLS, keeps a history with versions, answers
// lists page by page, replays its watch from any version that it has not compacted, and fails in the ways that tests ask for.
package fakeapi

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Server is the server. Its methods may be called from many goroutines.
type Server struct {
	ts *httptest.Server

	mu        sync.Mutex
	rev       int64
	pods      map[string]*corev1.Pod // by "namespace/name"; never changed once they are in here
	log       []change               // all changes after compacted
	compacted int64
	moved     chan struct{} // closed at the next change, and to end all watches
	epoch     int           // counts calls of EndWatches
	requests  Requests
	intercept func(http.ResponseWriter, *http.Request) bool
	budget    func() int
	pageSize  int
	conns     map[*conn]struct{}
}

// change is one write.
type change struct {
	rev int64
	typ string // ADDED, MODIFIED, DELETED
	pod *corev1.Pod
}

// Requests counts what was asked for.
type Requests struct{ Lists, Watches, StreamingLists int }

// New starts a server that ends with the test.
func New(tb testing.TB) *Server {
	s := &Server{pods: map[string]*corev1.Pod{}, moved: make(chan struct{}), rev: 1, conns: map[*conn]struct{}{}}
	s.ts = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.ts.Listener = &listener{s.ts.Listener, s}
	s.ts.EnableHTTP2 = true
	s.ts.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that were cut
	s.ts.StartTLS()
	tb.Cleanup(func() {
		s.EndWatches()
		s.ts.CloseClientConnections()
		s.ts.Close()
	})
	return s
}

// Config is how to reach the server.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: s.ts.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// Put creates a pod or replaces it, and returns its version. The pod is not kept.
func (s *Server) Put(pod *corev1.Pod) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod = pod.DeepCopy()
	key := pod.Namespace + "/" + pod.Name
	typ := "ADDED"
	if old := s.pods[key]; old != nil {
		typ, pod.UID = "MODIFIED", old.UID
	} else {
		pod.UID = types.UID("uid-" + strconv.FormatInt(s.rev+1, 10))
	}
	s.pods[key] = s.write(typ, pod)
	return pod.ResourceVersion
}

// Delete removes a pod if it is there, and returns the version of its deletion.
func (s *Server) Delete(namespace, name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := namespace + "/" + name
	old := s.pods[key]
	if old == nil {
		return ""
	}
	delete(s.pods, key)
	return s.write("DELETED", old.DeepCopy()).ResourceVersion
}

func (s *Server) write(typ string, pod *corev1.Pod) *corev1.Pod {
	s.rev++
	pod.ResourceVersion = strconv.FormatInt(s.rev, 10)
	s.log = append(s.log, change{s.rev, typ, pod})
	s.move()
	return pod
}

func (s *Server) move() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// Pods returns the versions of all pods by "namespace/name", and the server's version.
func (s *Server) Pods() (map[string]string, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for k, p := range s.pods {
		out[k] = p.ResourceVersion
	}
	return out, strconv.FormatInt(s.rev, 10)
}

// Compact forgets the history and ends all watches: only watches from the newest version on are possible.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget()
}

func (s *Server) forget() {
	s.log, s.compacted = nil, s.rev
	s.epoch++
	s.move()
}

// Restore goes back to an earlier version, as a restored backup does: what came after it never was.
func (s *Server) Restore(rev int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rev = rev
	s.forget()
	for k, p := range s.pods {
		if v, _ := strconv.ParseInt(p.ResourceVersion, 10, 64); v > rev {
			delete(s.pods, k)
		}
	}
}

// EndWatches ends all watches that are open, in order.
func (s *Server) EndWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	s.move()
}

// Bookmark makes every watch that takes bookmarks send one at the newest version.
func (s *Server) Bookmark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, change{rev: s.rev, typ: "BOOKMARK"})
	s.move()
}

// Requests returns how often what was asked for.
func (s *Server) Requests() Requests {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// Intercept has fn see every request first. When it returns true it has answered. Nil ends that.
func (s *Server) Intercept(fn func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = fn
}

// CutConnections cuts every connection that is accepted from now on after it has carried the number of bytes that budget
// says, wherever in a record or frame that is. Nil ends that.
func (s *Server) CutConnections(budget func() int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget = budget
}

// DropConnections cuts all connections now.
func (s *Server) DropConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.Conn.Close()
	}
}

type listener struct {
	net.Listener
	s *Server
}

func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	cut := &conn{Conn: c, s: l.s, left: -1}
	if l.s.budget != nil {
		cut.left = l.s.budget()
	}
	l.s.conns[cut] = struct{}{}
	return cut, nil
}

// conn is a connection that may be cut.
type conn struct {
	net.Conn
	s    *Server
	mu   sync.Mutex
	left int // bytes until the cut; -1: no cut
}

func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left < 0 {
		return c.Conn.Write(b)
	}
	if len(b) < c.left {
		c.left -= len(b)
		return c.Conn.Write(b)
	}
	n, _ := c.Conn.Write(b[:c.left])
	c.left = 0
	_ = c.Conn.Close()
	return n, net.ErrClosed
}

func (c *conn) Close() error {
	c.s.mu.Lock()
	delete(c.s.conns, c)
	c.s.mu.Unlock()
	return c.Conn.Close()
}
