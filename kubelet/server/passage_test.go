package server_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/tools/remotecommand"

	"vigil/apiserver"
	"vigil/apiserver/audit"
	"vigil/kubelet/server"
)

// TestPassage is what the API server does beside passing bytes on: sessions are written down when they begin and when they end, and take
// no place among the requests under way.
func TestPassage(t *testing.T) {
	c := startWith(t, func(c *cluster, config *apiserver.Config) {
		c.write(t, "policy.yaml", []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse, resources: [{group: '', resources: [pods/exec, pods/log]}]}]\n"))
		var err error
		config.Auditor, err = audit.New(audit.Config{PolicyFile: c.file("policy.yaml"), Registerer: prometheus.NewRegistry(), Log: audit.LogConfig{
			Path: c.file("audit.log"), Queue: audit.Queue{Mode: audit.Blocking},
		}})
		if err != nil {
			t.Fatal(err)
		}
		config.MaxRequestsInflight, config.MaxMutatingRequestsInflight = 1, 1
	}, func(*server.Config) {})
	c.rights.grant("ann get pods/exec", "ann create pods/exec", "ann get pods/log", "ann get pods/")
	ann := c.Client("ann")
	e, err := protocols[0].dial(ann, c.session("web", "exec", &corev1.PodExecOptions{Command: []string{"cat"}, Stdin: true, Stdout: true}))
	if err != nil {
		t.Fatal(err)
	}
	const sessions = 5
	in, say := make([]*io.PipeReader, sessions), make([]*io.PipeWriter, sessions)
	done := make(chan error, sessions)
	for i := range sessions {
		in[i], say[i] = io.Pipe()
		heard, out := io.Pipe()
		go func() {
			done <- e.StreamWithContext(context.Background(), remotecommand.StreamOptions{Stdin: in[i], Stdout: out})
		}()
		if _, err := io.WriteString(say[i], "x"); err != nil {
			t.Fatal(err)
		}
		if _, err := heard.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	// All five are open, and there is room for a request.
	if code, text := do(t, c.admin(t), "GET", c.URL+"/api/v1/namespaces/default/pods/web"); code != 200 {
		t.Errorf("beside sessions: %d %s", code, text)
	}
	for i := range sessions {
		say[i].Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	c.node.append(t, "web-main", entry("stdout", "one"))
	if _, err := c.log(t.Context(), "web", &corev1.PodLogOptions{}); err != nil {
		t.Error(err)
	}
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(c.file("audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for line := range strings.Lines(string(data)) {
		var event auditv1.Event
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		code := int32(0)
		if event.ResponseStatus != nil {
			code = event.ResponseStatus.Code
		}
		got[event.User.Username+" "+event.Verb+" "+event.ObjectRef.Subresource+" "+string(event.Stage)+" "+map[int32]string{0: "", 101: "101", 200: "200"}[code]]++
	}
	want := map[string]int{
		"ann get exec RequestReceived ": 5, "ann get exec ResponseStarted 101": 5, "ann get exec ResponseComplete 101": 5,
		"admin get log RequestReceived ": 1, "admin get log ResponseStarted 200": 1, "admin get log ResponseComplete 200": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("written down (-want +got):\n%s", diff)
	}
}
