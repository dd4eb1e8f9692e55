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
		contains(t, p.kubectl("apply", "-f", manifest), "deployment.apps/hello created", "configmap/settings created")
		contains(t, p.kubectl("apply", "-f", manifest), "deployment.apps/hello unchanged", "configmap/settings unchanged")
	})
	t.Run("rollout status", func(t *testing.T) {
		contains(t, p.kubectl("rollout", "status", "deployment/hello"), `deployment "hello" successfully rolled out`)
	})
	t.Run("watch shows every step", func(t *testing.T) {
		// A pod that starts at once, as on a simulated node, is never seen as ContainerCreating.
		watch.expect(t, "ADDED.*Pending", "MODIFIED.*Running")
	})
	t.Run("get", func(t *testing.T) {
		table := lines(p.kubectl("get", "pods"))
		if len(table) != 4 || strings.Join(strings.Fields(table[0]), " ") != "NAME READY STATUS RESTARTS AGE" {
			t.Errorf("got\n%s", strings.Join(table, "\n"))
		}
		contains(t, table[1], "1/1", "Running")
		wide := lines(p.kubectl("get", "pods", "-o", "wide"))
		contains(t, wide[0], "IP", "NODE", "NOMINATED NODE", "READINESS GATES")
		contains(t, lines(p.kubectl("get", "deploy", "hello", "-o", "wide"))[1], "3/3", "web", "demo:v1", "app=hello")
		contains(t, p.kubectl("get", "deploy", "hello", "-o", "yaml"), "apiVersion: apps/v1", "kind: Deployment", "progressDeadlineSeconds: 600", "maxSurge: 25%")
		names := strings.Fields(p.kubectl("get", "pods", "-o", `jsonpath={.items[*].metadata.name}`))
		if len(names) != 3 {
			t.Errorf("jsonpath named %v", names)
		}
		contains(t, p.kubectl("get", "pods", "-A"), "NAMESPACE", "default")
		contains(t, p.kubectl("get", "all"), "pod/hello-", "deployment.apps/hello", "replicaset.apps/hello-", "service/kubernetes")
		contains(t, p.kubectl("get", "nodes"), "Ready", "v1.37")
		contains(t, p.kubectl("get", "ns"), "default", "kube-system", "kube-public", "kube-node-lease", "Active")
		contains(t, p.kubectl("get", "events"), "Scheduled", "Started", "ScalingReplicaSet", "SuccessfulCreate")
		contains(t, p.kubectl("get", "leases", "-n", "kube-node-lease"), "node-1")
	})
	t.Run("chunks and selectors", func(t *testing.T) {
		whole := p.kubectl("get", "pods", "-o", "name")
		if got := p.kubectl("get", "pods", "-o", "name", "--chunk-size=1"); got != whole {
			t.Errorf("in chunks of one:\n%swhole:\n%s", got, whole)
		}
		if got := p.kubectl("get", "pods", "-o", "name", "-l", "app in (hello),other!=x"); got != whole {
			t.Errorf("by label: %s", got)
		}
		if got := p.kubectl("get", "pods", "-o", "name", "--field-selector", "status.phase=Running,spec.nodeName=node-1"); got != whole {
			t.Errorf("by field: %s", got)
		}
		if got := p.kubectl("get", "pods", "-o", "name", "-l", "app=nothing"); got != "" {
			t.Errorf("by a label nobody has: %s", got)
		}
		_, stderr, err := p.kubectlResult("", "get", "pods", "--field-selector", "spec.color=red")
		if err == nil || !strings.Contains(stderr, "field label not supported: spec.color") {
			t.Errorf("unknown field: %v, %s", err, stderr)
		}
	})
	t.Run("describe", func(t *testing.T) {
		pod := strings.TrimSpace(lines(p.kubectl("get", "pods", "-o", "name"))[0])
		contains(t, p.kubectl("describe", pod), "Controlled By:  ReplicaSet/hello-", "Image:          demo:v1", "State:          Running", "Scheduled", "Node:")
		contains(t, p.kubectl("describe", "deployment", "hello"), "3 desired | 3 updated | 3 total | 3 available", "NewReplicaSet", "Progressing")
		contains(t, p.kubectl("describe", "node", "node-1"), "Capacity:", "Conditions:", "KubeletReady", "Allocated resources:", "Lease:")
	})
	t.Run("label and annotate", func(t *testing.T) {
		p.kubectl("label", "configmap", "settings", "tier=front")
		p.kubectl("annotate", "configmap", "settings", "note=hi")
		if got := p.kubectl("get", "cm", "settings", "-o", "jsonpath={.metadata.labels.tier} {.metadata.annotations.note}"); got != "front hi" {
			t.Errorf("got %q", got)
		}
		p.kubectl("label", "configmap", "settings", "tier-")
		_, stderr, err := p.kubectlResult("", "label", "configmap", "settings", "app=other")
		if err == nil || !strings.Contains(stderr, "already has a value") {
			t.Errorf("relabelling without --overwrite: %v, %s", err, stderr)
		}
	})
	t.Run("patch", func(t *testing.T) {
		p.kubectl("patch", "cm", "settings", "--type=merge", "-p", `{"data":{"merge":"1"}}`)
		p.kubectl("patch", "cm", "settings", "--type=json", "-p", `[{"op":"add","path":"/data/json","value":"2"},{"op":"test","path":"/data/merge","value":"1"}]`)
		p.kubectl("patch", "deploy", "hello", "--type=strategic", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"A","value":"b"}]}]}}}}`)
		if got := p.kubectl("get", "cm", "settings", "-o", "jsonpath={.data.merge}{.data.json}{.data.color}"); got != "12blue" {
			t.Errorf("got %q", got)
		}
		if got := p.kubectl("get", "deploy", "hello", "-o", "jsonpath={.spec.template.spec.containers[*].image}/{.spec.template.spec.containers[0].env[0].value}"); got != "demo:v1/b" {
			t.Errorf("got %q", got)
		}
		p.kubectl("rollout", "status", "deploy/hello")
	})
	t.Run("edit", func(t *testing.T) {
		editor := filepath.Join(t.TempDir(), "editor")
		if err := os.WriteFile(editor, []byte("#!/bin/sh\nsed -i 's/color: blue/color: green/' \"$1\"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		t.Setenv("KUBE_EDITOR", editor)
		contains(t, p.kubectl("edit", "cm", "settings"), "configmap/settings edited")
		if got := p.kubectl("get", "cm", "settings", "-o", "jsonpath={.data.color}"); got != "green" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("scale", func(t *testing.T) {
		contains(t, p.kubectl("scale", "deploy", "hello", "--replicas=5"), "deployment.apps/hello scaled")
		p.kubectl("rollout", "status", "deploy/hello")
		contains(t, p.kubectl("get", "deploy", "hello"), "5/5")
		_, stderr, err := p.kubectlResult("", "scale", "deploy", "hello", "--current-replicas=9", "--replicas=1")
		if err == nil || !strings.Contains(stderr, "Expected replicas to be 9") {
			t.Errorf("scale with a wrong precondition: %v, %s", err, stderr)
		}
		p.kubectl("scale", "deploy", "hello", "--replicas=2")
		p.kubectl("wait", "deploy/hello", "--for=jsonpath={.status.replicas}=2", "--timeout=30s")
	})
	t.Run("set image and undo", func(t *testing.T) {
		contains(t, p.kubectl("set", "image", "deploy/hello", "web=demo:v2"), "image updated")
		p.kubectl("rollout", "status", "deploy/hello")
		image := func() string {
			return p.kubectl("get", "deploy", "hello", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
		}
		if image() != "demo:v2" {
			t.Errorf("image is %s", image())
		}
		contains(t, p.kubectl("rollout", "history", "deploy/hello"), "REVISION", "3")
		contains(t, p.kubectl("rollout", "undo", "deploy/hello"), "rolled back")
		p.kubectl("rollout", "status", "deploy/hello")
		if image() != "demo:v1" {
			t.Errorf("after the undo the image is %s", image())
		}
		p.kubectl("rollout", "restart", "deploy/hello")
		p.kubectl("rollout", "status", "deploy/hello")
	})
	t.Run("expose", func(t *testing.T) {
		contains(t, p.kubectl("expose", "deploy", "hello", "--port=80"), "service/hello exposed")
		ip := p.kubectl("get", "svc", "hello", "-o", "jsonpath={.spec.clusterIP}")
		if !strings.HasPrefix(ip, "10.") {
			t.Errorf("cluster IP is %q", ip)
		}
		contains(t, p.kubectl("get", "svc", "-o", "wide"), "hello", "ClusterIP", ip, "80/TCP", "app=hello")
	})
	t.Run("create", func(t *testing.T) {
		p.kubectl("create", "namespace", "team")
		p.kubectl("create", "configmap", "c", "-n", "team", "--from-literal=k=v")
		p.kubectl("create", "secret", "generic", "s", "-n", "team", "--from-literal=password=x")
		p.kubectl("create", "serviceaccount", "robot", "-n", "team")
		p.kubectl("create", "deployment", "d", "-n", "team", "--image=demo:v1", "--replicas=2")
		p.kubectl("create", "service", "nodeport", "n", "-n", "team", "--tcp=80:8080")
		p.kubectl("run", "solo", "-n", "team", "--image=demo:v1", "--restart=Never")
		p.kubectl("wait", "-n", "team", "pod/solo", "--for=condition=Ready", "--timeout=30s")
		p.kubectl("rollout", "status", "-n", "team", "deploy/d")
		contains(t, p.kubectl("get", "secret,sa,cm,svc", "-n", "team"), "Opaque", "robot", "NodePort", "80:3")
		_, stderr, err := p.kubectlResult("", "create", "namespace", "team")
		if err == nil || !strings.Contains(stderr, `namespaces "team" already exists`) {
			t.Errorf("second create: %v, %s", err, stderr)
		}
		_, stderr, err = p.kubectlResult("", "create", "configmap", "x", "-n", "nowhere")
		if err == nil || !strings.Contains(stderr, `namespaces "nowhere" not found`) {
			t.Errorf("create in a missing namespace: %v, %s", err, stderr)
		}
	})
	t.Run("validation", func(t *testing.T) {
		_, stderr, err := p.kubectlResult("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad}\ndatta: {}\n", "apply", "-f", "-")
		if err == nil || !strings.Contains(stderr, `unknown field "datta"`) {
			t.Errorf("unknown field: %v, %s", err, stderr)
		}
		_, stderr, err = p.kubectlResult("apiVersion: v1\nkind: Pod\nmetadata: {name: Bad_Name}\nspec: {containers: []}\n", "apply", "-f", "-")
		if err == nil || !strings.Contains(stderr, "metadata.name: Invalid value") || !strings.Contains(stderr, "spec.containers: Required value") {
			t.Errorf("bad pod: %v, %s", err, stderr)
		}
	})
	t.Run("replace", func(t *testing.T) {
		yaml := p.kubectl("get", "cm", "settings", "-o", "yaml")
		p.kubectlIn(strings.ReplaceAll(yaml, "color: green", "color: red"), "replace", "-f", "-")
		_, stderr, err := p.kubectlResult(yaml, "replace", "-f", "-")
		if err == nil || !strings.Contains(stderr, "the object has been modified") {
			t.Errorf("stale replace: %v, %s", err, stderr)
		}
	})
	t.Run("api-resources", func(t *testing.T) {
		contains(t, p.kubectl("api-resources", "-o", "wide"), "pods", "po", "deployments", "deploy", "apps/v1", "Lease", "create,delete,deletecollection,get,list,patch,update,watch")
		contains(t, p.kubectl("api-versions"), "apps/v1", "v1", "coordination.k8s.io/v1")
		contains(t, p.kubectl("version"), "Server Version: v1.37")
		contains(t, p.kubectl("cluster-info"), "is running at")
		contains(t, p.kubectl("get", "--raw", "/readyz?verbose"), "[+]etcd ok", "readyz check passed")
	})
	t.Run("delete in background", func(t *testing.T) {
		contains(t, p.kubectl("delete", "deploy", "d", "-n", "team"), `deployment.apps "d" deleted`)
		eventually(t, "garbage collection", func() error {
			if rest := p.kubectl("get", "rs,pods", "-n", "team", "-l", "app=d", "-o", "name"); rest != "" {
				return fmt.Errorf("still there: %s", rest)
			}
			return nil
		})
	})
	t.Run("delete in foreground", func(t *testing.T) {
		p.kubectl("create", "deployment", "fg", "-n", "team", "--image=demo:v1")
		p.kubectl("rollout", "status", "-n", "team", "deploy/fg")
		p.kubectl("delete", "deploy", "fg", "-n", "team", "--cascade=foreground", "--timeout=30s")
		if rest := p.kubectl("get", "rs,pods", "-n", "team", "-l", "app=fg", "-o", "name"); rest != "" {
			t.Errorf("the owner went before %s", rest)
		}
	})
	t.Run("delete orphans", func(t *testing.T) {
		p.kubectl("create", "deployment", "or", "-n", "team", "--image=demo:v1")
		p.kubectl("rollout", "status", "-n", "team", "deploy/or")
		p.kubectl("delete", "deploy", "or", "-n", "team", "--cascade=orphan")
		rs := strings.TrimSpace(p.kubectl("get", "rs", "-n", "team", "-l", "app=or", "-o", "name"))
		if rs == "" {
			t.Fatal("the replica set was deleted")
		}
		if owner := p.kubectl("get", rs, "-n", "team", "-o", "jsonpath={.metadata.ownerReferences}"); owner != "" {
			t.Errorf("the orphan still has an owner: %s", owner)
		}
		p.kubectl("delete", rs, "-n", "team")
	})
	t.Run("delete a pod and it is replaced", func(t *testing.T) {
		before := lines(p.kubectl("get", "pods", "-l", "app=hello", "-o", "name"))
		p.kubectl("delete", before[0])
		p.kubectl("rollout", "status", "deploy/hello")
		after := lines(p.kubectl("get", "pods", "-l", "app=hello", "-o", "name", "--field-selector=status.phase=Running"))
		if slices.Contains(after, before[0]) || len(after) != len(before) {
			t.Errorf("before %v, after %v", before, after)
		}
		p.kubectl("delete", "pod", "solo", "-n", "team", "--grace-period=0", "--force")
	})
	t.Run("delete a namespace", func(t *testing.T) {
		p.kubectl("delete", "namespace", "team", "--timeout=60s")
		_, stderr, err := p.kubectlResult("", "get", "namespace", "team")
		if err == nil || !strings.Contains(stderr, "NotFound") {
			t.Errorf("get after delete: %v, %s", err, stderr)
		}
		_, stderr, err = p.kubectlResult("", "delete", "namespace", "default")
		if err == nil || !strings.Contains(stderr, "this namespace may not be deleted") {
			t.Errorf("deleting the default namespace: %v, %s", err, stderr)
		}
	})
	t.Run("list form and selectors in delete", func(t *testing.T) {
		p.kubectl("delete", "-f", manifest)
		p.kubectl("create", "cm", "a")
		p.kubectl("create", "cm", "b")
		p.kubectl("label", "cm", "a", "b", "gone=yes")
		p.kubectl("delete", "cm", "-l", "gone=yes")
		var list struct{ Items []any }
		if err := json.Unmarshal([]byte(p.kubectl("get", "cm", "-l", "gone=yes", "-o", "json")), &list); err != nil || len(list.Items) != 0 {
			t.Errorf("left: %v, %v", list.Items, err)
		}
	})
}

// watching is a kubectl that follows something; its lines can be waited for.
type watching struct {
	lines chan string
	seen  []string
}

func startWatch(t *testing.T, p *process, args ...string) *watching {
	t.Helper()
	cmd := exec.Command(binary(t), append([]string{"kubectl"}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+p.kubeconfig(), "HOME="+p.dataDir)
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
	deadline := time.After(patience)
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
