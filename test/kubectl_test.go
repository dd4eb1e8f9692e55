package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"vigil/internal/built"
	"vigil/internal/eventually"
	"vigil/test/harness"
)

const helloManifest = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: hello
  labels: {app: hello}
spec:
  replicas: 3
  selector: {matchLabels: {app: hello}}
  template:
    metadata: {labels: {app: hello}}
    spec:
      containers:
      - name: web
        image: demo:v1
        resources: {requests: {cpu: 10m, memory: 16Mi}}
        ports: [{containerPort: 80}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: hello}}
data: {color: blue}
`

// One cluster and one story, as a user would go through it: each step builds on the ones before.
func TestKubectl(t *testing.T) {
	p := startCluster(t)
	manifest := filepath.Join(t.TempDir(), "hello.yaml")
	if err := os.WriteFile(manifest, []byte(helloManifest), 0o600); err != nil {
		t.Fatal(err)
	}
	contains := func(t *testing.T, got string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(got, part) {
				t.Errorf("%q is missing in:\n%s", part, got)
			}
		}
	}
	lines := func(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") }

	watch := startWatch(t, p, "get", "pods", "-l", "app=hello", "-w", "--output-watch-events")

	t.Run("apply", func(t *testing.T) {
		contains(t, p.Kubectl("apply", "-f", manifest), "deployment.apps/hello created", "configmap/settings created")
		contains(t, p.Kubectl("apply", "-f", manifest), "deployment.apps/hello unchanged", "configmap/settings unchanged")
	})
	t.Run("rollout status", func(t *testing.T) {
		contains(t, p.Kubectl("rollout", "status", "deployment/hello"), `deployment "hello" successfully rolled out`)
	})
	t.Run("watch shows every step", func(t *testing.T) {
		// A pod that starts at once, as on a simulated node, is never seen as ContainerCreating.
		watch.expect(t, "ADDED.*Pending", "MODIFIED.*Running")
	})
	t.Run("get", func(t *testing.T) {
		table := lines(p.Kubectl("get", "pods"))
		if len(table) != 4 || strings.Join(strings.Fields(table[0]), " ") != "NAME READY STATUS RESTARTS AGE" {
			t.Errorf("got\n%s", strings.Join(table, "\n"))
		}
		contains(t, table[1], "1/1", "Running")
		wide := lines(p.Kubectl("get", "pods", "-o", "wide"))
		contains(t, wide[0], "IP", "NODE", "NOMINATED NODE", "READINESS GATES")
		contains(t, lines(p.Kubectl("get", "deploy", "hello", "-o", "wide"))[1], "3/3", "web", "demo:v1", "app=hello")
		contains(t, p.Kubectl("get", "deploy", "hello", "-o", "yaml"), "apiVersion: apps/v1", "kind: Deployment", "progressDeadlineSeconds: 600", "maxSurge: 25%")
		names := strings.Fields(p.Kubectl("get", "pods", "-o", `jsonpath={.items[*].metadata.name}`))
		if len(names) != 3 {
			t.Errorf("jsonpath named %v", names)
		}
		contains(t, p.Kubectl("get", "pods", "-A"), "NAMESPACE", "default")
		contains(t, p.Kubectl("get", "all"), "pod/hello-", "deployment.apps/hello", "replicaset.apps/hello-", "service/kubernetes")
		contains(t, p.Kubectl("get", "nodes"), "Ready", "v1.37")
		contains(t, p.Kubectl("get", "ns"), "default", "kube-system", "kube-public", "kube-node-lease", "Active")
		contains(t, p.Kubectl("get", "events"), "Scheduled", "Started", "ScalingReplicaSet", "SuccessfulCreate")
		contains(t, p.Kubectl("get", "leases", "-n", "kube-node-lease"), "node-1")
	})
	t.Run("chunks and selectors", func(t *testing.T) {
		whole := p.Kubectl("get", "pods", "-o", "name")
		if got := p.Kubectl("get", "pods", "-o", "name", "--chunk-size=1"); got != whole {
			t.Errorf("in chunks of one:\n%swhole:\n%s", got, whole)
		}
		if got := p.Kubectl("get", "pods", "-o", "name", "-l", "app in (hello),other!=x"); got != whole {
			t.Errorf("by label: %s", got)
		}
		if got := p.Kubectl("get", "pods", "-o", "name", "--field-selector", "status.phase=Running,spec.nodeName=node-1"); got != whole {
			t.Errorf("by field: %s", got)
		}
		if got := p.Kubectl("get", "pods", "-o", "name", "-l", "app=nothing"); got != "" {
			t.Errorf("by a label nobody has: %s", got)
		}
		_, stderr, err := p.TryKubectl("", "get", "pods", "--field-selector", "spec.color=red")
		if err == nil || !strings.Contains(stderr, "field label not supported: spec.color") {
			t.Errorf("unknown field: %v, %s", err, stderr)
		}
	})
	t.Run("describe", func(t *testing.T) {
		pod := strings.TrimSpace(lines(p.Kubectl("get", "pods", "-o", "name"))[0])
		contains(t, p.Kubectl("describe", pod), "Controlled By:  ReplicaSet/hello-", "Image:          demo:v1", "State:          Running", "Scheduled", "Node:")
		contains(t, p.Kubectl("describe", "deployment", "hello"), "3 desired | 3 updated | 3 total | 3 available", "NewReplicaSet", "Progressing")
		contains(t, p.Kubectl("describe", "node", "node-1"), "Capacity:", "Conditions:", "KubeletReady", "Allocated resources:", "Lease:")
	})
	t.Run("label and annotate", func(t *testing.T) {
		p.Kubectl("label", "configmap", "settings", "tier=front")
		p.Kubectl("annotate", "configmap", "settings", "note=hi")
		if got := p.Kubectl("get", "cm", "settings", "-o", "jsonpath={.metadata.labels.tier} {.metadata.annotations.note}"); got != "front hi" {
			t.Errorf("got %q", got)
		}
		p.Kubectl("label", "configmap", "settings", "tier-")
		_, stderr, err := p.TryKubectl("", "label", "configmap", "settings", "app=other")
		if err == nil || !strings.Contains(stderr, "already has a value") {
			t.Errorf("relabelling without --overwrite: %v, %s", err, stderr)
		}
	})
	t.Run("patch", func(t *testing.T) {
		p.Kubectl("patch", "cm", "settings", "--type=merge", "-p", `{"data":{"merge":"1"}}`)
		p.Kubectl("patch", "cm", "settings", "--type=json", "-p", `[{"op":"add","path":"/data/json","value":"2"},{"op":"test","path":"/data/merge","value":"1"}]`)
		p.Kubectl("patch", "deploy", "hello", "--type=strategic", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"A","value":"b"}]}]}}}}`)
		if got := p.Kubectl("get", "cm", "settings", "-o", "jsonpath={.data.merge}{.data.json}{.data.color}"); got != "12blue" {
			t.Errorf("got %q", got)
		}
		if got := p.Kubectl("get", "deploy", "hello", "-o", "jsonpath={.spec.template.spec.containers[*].image}/{.spec.template.spec.containers[0].env[0].value}"); got != "demo:v1/b" {
			t.Errorf("got %q", got)
		}
		p.Kubectl("rollout", "status", "deploy/hello")
	})
	t.Run("edit", func(t *testing.T) {
		editor := filepath.Join(t.TempDir(), "editor")
		if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i 's/color: blue/color: green/' \"$1\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("KUBE_EDITOR", editor)
		contains(t, p.Kubectl("edit", "cm", "settings"), "configmap/settings edited")
		if got := p.Kubectl("get", "cm", "settings", "-o", "jsonpath={.data.color}"); got != "green" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("scale", func(t *testing.T) {
		contains(t, p.Kubectl("scale", "deploy", "hello", "--replicas=5"), "deployment.apps/hello scaled")
		p.Kubectl("rollout", "status", "deploy/hello")
		contains(t, p.Kubectl("get", "deploy", "hello"), "5/5")
		_, stderr, err := p.TryKubectl("", "scale", "deploy", "hello", "--current-replicas=9", "--replicas=1")
		if err == nil || !strings.Contains(stderr, "Expected replicas to be 9") {
			t.Errorf("scale with a wrong precondition: %v, %s", err, stderr)
		}
		p.Kubectl("scale", "deploy", "hello", "--replicas=2")
		p.Kubectl("wait", "deploy/hello", "--for=jsonpath={.status.replicas}=2", harness.InTime)
	})
	t.Run("set image and undo", func(t *testing.T) {
		contains(t, p.Kubectl("set", "image", "deploy/hello", "web=demo:v2"), "image updated")
		p.Kubectl("rollout", "status", "deploy/hello")
		image := func() string {
			return p.Kubectl("get", "deploy", "hello", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
		}
		if image() != "demo:v2" {
			t.Errorf("image is %s", image())
		}
		contains(t, p.Kubectl("rollout", "history", "deploy/hello"), "REVISION", "3")
		contains(t, p.Kubectl("rollout", "undo", "deploy/hello"), "rolled back")
		p.Kubectl("rollout", "status", "deploy/hello")
		if image() != "demo:v1" {
			t.Errorf("after the undo the image is %s", image())
		}
		p.Kubectl("rollout", "restart", "deploy/hello")
		p.Kubectl("rollout", "status", "deploy/hello")
	})
	t.Run("expose", func(t *testing.T) {
		contains(t, p.Kubectl("expose", "deploy", "hello", "--port=80"), "service/hello exposed")
		ip := p.Kubectl("get", "svc", "hello", "-o", "jsonpath={.spec.clusterIP}")
		if !strings.HasPrefix(ip, "10.") {
			t.Errorf("cluster IP is %q", ip)
		}
		contains(t, p.Kubectl("get", "svc", "-o", "wide"), "hello", "ClusterIP", ip, "80/TCP", "app=hello")
	})
	t.Run("create", func(t *testing.T) {
		p.Kubectl("create", "namespace", "team")
		p.Kubectl("create", "configmap", "c", "-n", "team", "--from-literal=k=v")
		p.Kubectl("create", "secret", "generic", "s", "-n", "team", "--from-literal=password=x")
		p.Kubectl("create", "serviceaccount", "robot", "-n", "team")
		p.Kubectl("create", "deployment", "d", "-n", "team", "--image=demo:v1", "--replicas=2")
		p.Kubectl("create", "service", "nodeport", "n", "-n", "team", "--tcp=80:8080")
		p.Kubectl("run", "solo", "-n", "team", "--image=demo:v1", "--restart=Never")
		p.Kubectl("wait", "-n", "team", "pod/solo", "--for=condition=Ready", harness.InTime)
		p.Kubectl("rollout", "status", "-n", "team", "deploy/d")
		contains(t, p.Kubectl("get", "secret,sa,cm,svc", "-n", "team"), "Opaque", "robot", "NodePort", "80:3")
		_, stderr, err := p.TryKubectl("", "create", "namespace", "team")
		if err == nil || !strings.Contains(stderr, `namespaces "team" already exists`) {
			t.Errorf("second create: %v, %s", err, stderr)
		}
		_, stderr, err = p.TryKubectl("", "create", "configmap", "x", "-n", "nowhere")
		if err == nil || !strings.Contains(stderr, `namespaces "nowhere" not found`) {
			t.Errorf("create in a missing namespace: %v, %s", err, stderr)
		}
	})
	t.Run("validation", func(t *testing.T) {
		_, stderr, err := p.TryKubectl("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad}\ndatta: {}\n", "apply", "-f", "-")
		if err == nil || !strings.Contains(stderr, `unknown field "datta"`) {
			t.Errorf("unknown field: %v, %s", err, stderr)
		}
		_, stderr, err = p.TryKubectl("apiVersion: v1\nkind: Pod\nmetadata: {name: Bad_Name}\nspec: {containers: []}\n", "apply", "-f", "-")
		if err == nil || !strings.Contains(stderr, "metadata.name: Invalid value") || !strings.Contains(stderr, "spec.containers: Required value") {
			t.Errorf("bad pod: %v, %s", err, stderr)
		}
	})
	t.Run("replace", func(t *testing.T) {
		yaml := p.Kubectl("get", "cm", "settings", "-o", "yaml")
		p.KubectlIn(strings.ReplaceAll(yaml, "color: green", "color: red"), "replace", "-f", "-")
		_, stderr, err := p.TryKubectl(yaml, "replace", "-f", "-")
		if err == nil || !strings.Contains(stderr, "the object has been modified") {
			t.Errorf("stale replace: %v, %s", err, stderr)
		}
	})
	t.Run("api-resources", func(t *testing.T) {
		contains(t, p.Kubectl("api-resources", "-o", "wide"), "pods", "po", "deployments", "deploy", "apps/v1", "Lease", "create,delete,deletecollection,get,list,patch,update,watch")
		contains(t, p.Kubectl("api-versions"), "apps/v1", "v1", "coordination.k8s.io/v1")
		contains(t, p.Kubectl("version"), "Server Version: v1.37")
		contains(t, p.Kubectl("cluster-info"), "is running at")
		contains(t, p.Kubectl("get", "--raw", "/readyz?verbose"), "[+]etcd ok", "readyz check passed")
	})
	t.Run("delete in background", func(t *testing.T) {
		contains(t, p.Kubectl("delete", "deploy", "d", "-n", "team"), `deployment.apps "d" deleted`)
		eventually.Nil(t, "garbage collection", func() error {
			if rest := p.Kubectl("get", "rs,pods", "-n", "team", "-l", "app=d", "-o", "name"); rest != "" {
				return fmt.Errorf("still there: %s", rest)
			}
			return nil
		})
	})
	t.Run("delete in foreground", func(t *testing.T) {
		p.Kubectl("create", "deployment", "fg", "-n", "team", "--image=demo:v1")
		p.Kubectl("rollout", "status", "-n", "team", "deploy/fg")
		p.Kubectl("delete", "deploy", "fg", "-n", "team", "--cascade=foreground", harness.InTime)
		if rest := p.Kubectl("get", "rs,pods", "-n", "team", "-l", "app=fg", "-o", "name"); rest != "" {
			t.Errorf("the owner went before %s", rest)
		}
	})
	t.Run("delete orphans", func(t *testing.T) {
		p.Kubectl("create", "deployment", "or", "-n", "team", "--image=demo:v1")
		p.Kubectl("rollout", "status", "-n", "team", "deploy/or")
		p.Kubectl("delete", "deploy", "or", "-n", "team", "--cascade=orphan")
		rs := strings.TrimSpace(p.Kubectl("get", "rs", "-n", "team", "-l", "app=or", "-o", "name"))
		if rs == "" {
			t.Fatal("the replica set was deleted")
		}
		if owner := p.Kubectl("get", rs, "-n", "team", "-o", "jsonpath={.metadata.ownerReferences}"); owner != "" {
			t.Errorf("the orphan still has an owner: %s", owner)
		}
		p.Kubectl("delete", rs, "-n", "team")
	})
	t.Run("delete a pod and it is replaced", func(t *testing.T) {
		before := lines(p.Kubectl("get", "pods", "-l", "app=hello", "-o", "name"))
		p.Kubectl("delete", before[0])
		p.Kubectl("rollout", "status", "deploy/hello")
		after := lines(p.Kubectl("get", "pods", "-l", "app=hello", "-o", "name", "--field-selector=status.phase=Running"))
		if slices.Contains(after, before[0]) || len(after) != len(before) {
			t.Errorf("before %v, after %v", before, after)
		}
		p.Kubectl("delete", "pod", "solo", "-n", "team", "--grace-period=0", "--force")
	})
	t.Run("delete a namespace", func(t *testing.T) {
		p.Kubectl("delete", "namespace", "team", harness.InTime)
		_, stderr, err := p.TryKubectl("", "get", "namespace", "team")
		if err == nil || !strings.Contains(stderr, "NotFound") {
			t.Errorf("get after delete: %v, %s", err, stderr)
		}
		_, stderr, err = p.TryKubectl("", "delete", "namespace", "default")
		if err == nil || !strings.Contains(stderr, "this namespace may not be deleted") {
			t.Errorf("deleting the default namespace: %v, %s", err, stderr)
		}
	})
	t.Run("list form and selectors in delete", func(t *testing.T) {
		p.Kubectl("delete", "-f", manifest)
		p.Kubectl("create", "cm", "a")
		p.Kubectl("create", "cm", "b")
		p.Kubectl("label", "cm", "a", "b", "gone=yes")
		p.Kubectl("delete", "cm", "-l", "gone=yes")
		var list struct{ Items []any }
		if err := json.Unmarshal([]byte(p.Kubectl("get", "cm", "-l", "gone=yes", "-o", "json")), &list); err != nil || len(list.Items) != 0 {
			t.Errorf("left: %v, %v", list.Items, err)
		}
	})
}

// watching is a kubectl that follows something; its lines can be waited for.
type watching struct {
	lines chan string
	seen  []string
}

func startWatch(t *testing.T, p *cluster, args ...string) *watching {
	t.Helper()
	cmd := exec.Command(built.Program(t), append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.Kubeconfig(), "HOME="+p.DataDir)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &watching{lines: make(chan string, 1000)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			w.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
		cmd.Wait()
	})
	return w
}

// expect waits for lines that hold the words of each pattern ("A.*B": both), in this order.
func (w *watching) expect(t *testing.T, patterns ...string) {
	t.Helper()
	deadline := time.After(eventually.Limit)
	for _, pattern := range patterns {
		words := strings.Split(pattern, ".*")
		for found := false; !found; {
			select {
			case line := <-w.lines:
				w.seen = append(w.seen, line)
				found = !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) })
			case <-deadline:
				t.Fatalf("no line with %v after:\n%s", words, strings.Join(w.seen, "\n"))
			}
		}
	}
}
