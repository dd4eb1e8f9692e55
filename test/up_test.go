package test

import (
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"vigil/internal/built"
	"vigil/internal/eventually"
	"vigil/internal/need"
	"vigil/internal/porttest"
	"vigil/test/harness"
)

func TestUp_KeepsDataOverRestarts(t *testing.T) {
	p := startCluster(t)
	ctx := context.Background()
	made, err := p.Client().CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Stop()
	p.Up()
	got, err := p.Client().CoreV1().ConfigMaps("default").Get(ctx, "kept", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID != made.UID || got.ResourceVersion != made.ResourceVersion || got.Data["a"] != "1" {
		t.Errorf("after the restart: %+v, want %+v", got, made)
	}
	p.Stop()
}

func TestUp_WithFewerNodes(t *testing.T) {
	p := startCluster(t, "--nodes", "3")
	p.Kubectl("create", "deployment", "spread", "--image=demo", "--replicas=6")
	p.Kubectl("rollout", "status", "deploy/spread", harness.InTime)
	p.Stop()
	p.configure("--nodes", "1")
	p.Up()
	if nodes := strings.Fields(p.Kubectl("get", "nodes", "-o", "name")); len(nodes) != 1 {
		t.Errorf("nodes after the restart: %v", nodes)
	}
	eventually.Nil(t, "all pods on the node that is left", func() error {
		running := p.Kubectl("get", "pods", "-l", "app=spread", "-o", "name", "--field-selector", "spec.nodeName=node-1,status.phase=Running")
		if n := len(strings.Fields(running)); n != 6 {
			return fmt.Errorf("%d run", n)
		}
		return nil
	})
	p.Stop()
}

func TestUp_SaysWhatIsWrong(t *testing.T) {
	p := startCluster(t)
	run := func(args ...string) string {
		t.Helper()
		output, err := exec.Command(built.Program(t), append([]string{"up", "--runtime", "simulated"}, args...)...).CombinedOutput()
		if err == nil {
			t.Fatalf("vigil up %v succeeded", args)
		}
		text := strings.TrimSpace(string(output))
		lines := strings.Split(text, "\n")
		return lines[len(lines)-1]
	}
	expect := func(got string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("got %q, which does not say %q", got, part)
			}
		}
	}

	t.Run("data directory in use", func(t *testing.T) {
		expect(run("--data-dir", p.DataDir, "--secure-port", strconv.Itoa(porttest.Free(t))), p.DataDir, "in use by process "+strconv.Itoa(p.PID()))
	})
	t.Run("port in use", func(t *testing.T) {
		expect(run("--data-dir", t.TempDir(), "--etcd-port", "0", "--secure-port", strconv.Itoa(p.port)), "127.0.0.1:"+strconv.Itoa(p.port), "address already in use")
	})
	t.Run("scheduler port in use", func(t *testing.T) {
		expect(run("--data-dir", t.TempDir(), "--etcd-port", "0", "--secure-port", strconv.Itoa(porttest.Free(t)), "--controller-manager-port", "0", "--scheduler-port", strconv.Itoa(p.port)),
			"127.0.0.1:"+strconv.Itoa(p.port), "address already in use")
	})
	t.Run("not a port", func(t *testing.T) {
		got := run("--data-dir", t.TempDir(), "--etcd-port", "0", "--secure-port", "99999")
		if expect(got, "invalid port"); strings.Contains(got, "another cluster") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("no data directory", func(t *testing.T) { expect(run("--data-dir", ""), "--data-dir") })
	t.Run("etcd port in use", func(t *testing.T) {
		port := strconv.Itoa(porttest.FreeRange(t, 2))
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		expect(run("--data-dir", t.TempDir(), "--etcd-port", port, "--secure-port", strconv.Itoa(porttest.Free(t))), port, "address already in use")
	})
	t.Run("data directory is a file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		expect(run("--data-dir", file), file, "is a file")
	})
	t.Run("corrupt certificate", func(t *testing.T) {
		q := startCluster(t)
		q.Stop()
		cert := filepath.Join(q.DataDir, "pki", "apiserver.crt")
		if err := os.WriteFile(cert, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		expect(run("--data-dir", q.DataDir, "--etcd-port", "0", "--secure-port", strconv.Itoa(q.port)), cert, "damaged")
	})
	t.Run("no permission", func(t *testing.T) {
		need.Root(t, "becomes somebody else")
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for parent := filepath.Dir(dir); parent != "/"; parent = filepath.Dir(parent) {
			os.Chmod(parent, 0o755)
		}
		command := exec.Command(binaryFor(t, "nobody"), "up", "--data-dir", dir)
		command.SysProcAttr = asNobody()
		command.Dir = "/"
		output, err := command.CombinedOutput()
		if err == nil {
			t.Fatal("vigil up succeeded without permission")
		}
		expect(string(output), "no permission", dir)
	})
	t.Run("runtime that is not there", func(t *testing.T) {
		expect(run("--data-dir", t.TempDir(), "--runtime", "rocket"), "rocket", "auto, simulated")
	})
}

func TestUp_CompressesWatchesWhenAsked(t *testing.T) {
	p := startCluster(t, "--nodes", "0", "--watch-compression")
	client, err := rest.HTTPClientFor(p.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, coding := range []string{"gzip", "deflate"} {
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Config().Host+"/api/v1/namespaces?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", coding)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body io.Reader
		if coding == "gzip" {
			body, err = gzip.NewReader(resp.Body)
		} else {
			body, err = zlib.NewReader(resp.Body)
		}
		if err != nil {
			t.Fatalf("%s: %v", coding, err)
		}
		var event struct{ Type string }
		if err := json.NewDecoder(body).Decode(&event); err != nil || event.Type != "ADDED" || resp.Header.Get("Content-Encoding") != coding {
			t.Errorf("%s: got %v, %+v, header %v", coding, err, event, resp.Header)
		}
		cancel()
		resp.Body.Close()
	}
	p.Stop()
}

func TestStatus(t *testing.T) {
	p := startCluster(t, "--nodes", "2")
	output, err := exec.Command(built.Program(t), "status", "-o", "json", "--data-dir", p.DataDir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var status struct {
		Ready  bool
		Server string
		Nodes  []struct {
			Name  string
			Ready bool
		}
	}
	if err := json.Unmarshal(output, &status); err != nil {
		t.Fatalf("%v in %s", err, output)
	}
	if !status.Ready || len(status.Nodes) != 2 || !status.Nodes[0].Ready || !strings.HasSuffix(status.Server, ":"+strconv.Itoa(p.port)) {
		t.Errorf("got %s", output)
	}
	p.Stop()
	if output, err := exec.Command(built.Program(t), "status", "--data-dir", p.DataDir).CombinedOutput(); err == nil {
		t.Errorf("status of a stopped cluster succeeded: %s", output)
	}
}
