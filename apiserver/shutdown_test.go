package apiserver_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/internal/eventually"
)

// TestShutdown stops a server with watches and a slow request under way.
func TestShutdown(t *testing.T) {
	t.Parallel()
	b := &blocking{user: "slow", entered: make(chan struct{}), release: make(chan struct{})}
	s := apiservertest.Start(t, func(c *apiserver.Config) { c.Authorizer, c.ShutdownDelay = b, 300*time.Millisecond })
	h2 := newClient(t, s.Admin())
	config := s.Admin()
	config.NextProtos = []string{"http/1.1"}
	h1 := newClient(t, config)
	k := s.Clientset()
	namespace(t, k, "a")
	configMap(t, k, "a", "c1")

	watches := []*stream{
		h2.watch("/api/v1/configmaps?watch=true&allowWatchBookmarks=true"),
		h1.watch("/api/v1/configmaps?watch=true&allowWatchBookmarks=true"),
	}
	for _, w := range watches {
		w.expect("ADDED c1", "BOOKMARK end")
	}
	silent := h2.watch("/api/v1/configmaps?watch=true")
	silent.expect("ADDED c1")
	slow := newClient(t, s.Client("slow"))
	answer := make(chan response, 1)
	go func() { answer <- slow.get("/api/v1/configmaps") }()
	<-b.entered

	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop() }()

	// The server says that it stops while it still serves.
	var ready response
	eventually.True(t, "readyz fails", func() bool {
		ready = h2.get("/readyz")
		return ready.code == http.StatusInternalServerError
	})
	if !strings.Contains(string(ready.body), "[-]shutdown failed: reason withheld\n") || !strings.HasSuffix(string(ready.body), "readyz check failed\n") {
		t.Errorf("readyz: %s", ready.body)
	}
	if r := h2.get("/livez"); r.code != http.StatusOK {
		t.Errorf("livez while stopping: %d", r.code)
	}
	for _, w := range watches {
		w.expect("BOOKMARK")
		w.expectEnd()
	}
	silent.expectEnd()
	select {
	case err := <-stopped:
		t.Fatalf("stopped with a request under way: %v", err)
	default:
	}
	close(b.release)
	if r := <-answer; r.code != http.StatusOK {
		t.Errorf("the request under way ended with %d", r.code)
	}
	select {
	case err := <-stopped:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(timeout):
		t.Fatal("does not stop")
	}
}

// TestShutdown_Bound stops a server with a request that does not end.
func TestShutdown_Bound(t *testing.T) {
	t.Parallel()
	b := &blocking{user: "slow", entered: make(chan struct{}), release: make(chan struct{})}
	s := apiservertest.Start(t, func(c *apiserver.Config) { c.Authorizer, c.ShutdownTimeout = b, 100*time.Millisecond })
	slow := newClient(t, s.Client("slow"))
	ended := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, s.URL+"/api/v1/pods", nil)
		if err != nil {
			ended <- err
			return
		}
		resp, err := slow.http.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		ended <- err
	}()
	<-b.entered
	began := time.Now()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= 10*time.Second { // the default
		t.Errorf("took %v", took)
	}
	if err := <-ended; err == nil {
		t.Error("the request was answered, want it cut off")
	}
}
