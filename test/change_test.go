package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/test/harness"
)

// The less common ways in which kubectl changes things and looks at them.
func TestKubectl_Change(t *testing.T) {
	p := startCluster(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	get := func(what, path string) string { return p.Kubectl("get", what, "-o", "jsonpath="+path) }
	p.Kubectl("create", "deployment", "web", "--image=demo")

	t.Run("set", func(t *testing.T) {
		p.Kubectl("create", "serviceaccount", "robot")
		p.Kubectl("set", "env", "deploy/web", "A=b")
		p.Kubectl("set", "resources", "deploy/web", "--requests=cpu=1m")
		p.Kubectl("set", "serviceaccount", "deploy/web", "robot")
		p.Kubectl("create", "service", "clusterip", "s", "--tcp=80")
		p.Kubectl("set", "selector", "svc/s", "a=b")
		got := get("deploy/web", "{.spec.template.spec.containers[0].env[0].value} {.spec.template.spec.containers[0].resources.requests.cpu} {.spec.template.spec.serviceAccountName}")
		if got != "b 1m robot" || get("svc/s", "{.spec.selector}") != `{"a":"b"}` {
			t.Errorf("got %q", got)
		}
	})
	t.Run("pause and resume", func(t *testing.T) {
		p.Kubectl("rollout", "pause", "deploy/web")
		mustContain(t, p.KubectlFails("", "rollout", "restart", "deploy/web"), "can't restart paused deployment")
		p.Kubectl("rollout", "resume", "deploy/web")
		p.Kubectl("rollout", "status", "deploy/web")
	})
	t.Run("subresources", func(t *testing.T) {
		p.Kubectl("patch", "deploy", "web", "--subresource=scale", "--type=merge", "-p", `{"spec":{"replicas":2}}`)
		p.Kubectl("wait", "deploy/web", "--for=jsonpath={.status.readyReplicas}=2", harness.InTime)
		_, row := columns(p.Kubectl("get", "deploy", "web", "--subresource=scale"), "web")
		if !strings.HasPrefix(row, "web 2 2 ") {
			t.Errorf("the scale is %q", row)
		}
		if got := p.Kubectl("get", "deploy", "web", "--subresource=status", "-o", "jsonpath={.status.replicas}"); got != "2" {
			t.Errorf("the status has %q replicas", got)
		}
	})
	t.Run("wait", func(t *testing.T) {
		p.Kubectl("create", "configmap", "w")
		p.Kubectl("wait", "--for=create", "cm/w", harness.InTime)
		mustContain(t, p.Kubectl("delete", "cm", "w", "--dry-run=server"), "server dry run")
		p.Kubectl("get", "cm", "w")
		p.Kubectl("delete", "cm", "w")
		p.Kubectl("wait", "--for=delete", "cm/w", harness.InTime)
	})
	t.Run("replace by force", func(t *testing.T) {
		path := file("r.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: r}\ndata: {a: b}\n")
		p.Kubectl("create", "-f", path)
		before := get("cm/r", "{.metadata.uid}")
		mustContain(t, p.Kubectl("replace", "--force", "-f", path), "configmap/r replaced")
		if get("cm/r", "{.metadata.uid}") == before {
			t.Error("it is the same object")
		}
		mustContain(t, p.KubectlFails("", "annotate", "cm", "r", "a=b", "--resource-version=1"), "the object has been modified")
	})
	t.Run("prune", func(t *testing.T) {
		text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, labels: {pruned: \"yes\"}}\n"
		p.Kubectl("apply", "-f", file("p1.yaml", fmt.Sprintf(text, "p1")))
		got := p.Kubectl("apply", "-f", file("p2.yaml", fmt.Sprintf(text, "p2")), "--prune", "-l", "pruned=yes", "--prune-allowlist=core/v1/ConfigMap")
		mustContain(t, got, "configmap/p2 created", "configmap/p1 pruned")
	})
	t.Run("kustomize", func(t *testing.T) {
		file("k/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\n")
		file("k/kustomization.yaml", "resources: [cm.yaml]\nnamePrefix: z-\nconfigMapGenerator:\n- name: gen\n  literals: [a=b]\n")
		mustContain(t, p.Kubectl("apply", "-k", filepath.Join(dir, "k")), "configmap/z-cm created", "configmap/z-gen-")
		p.Kubectl("diff", "-k", filepath.Join(dir, "k"))
	})
	t.Run("raw", func(t *testing.T) {
		made := p.KubectlIn(`{"metadata":{"generateName":"raw-"}}`, "create", "--raw", "/api/v1/namespaces/default/configmaps", "-f", "-")
		var object corev1.ConfigMap
		if err := json.Unmarshal([]byte(made), &object); err != nil || !strings.HasPrefix(object.Name, "raw-") || len(object.Name) != 9 {
			t.Fatalf("%v: %s", err, made)
		}
		path := "/api/v1/namespaces/default/configmaps/" + object.Name
		mustContain(t, p.Kubectl("get", "--raw", path), `"kind":"ConfigMap"`)
		p.KubectlIn(`{"metadata":{"name":"`+object.Name+`"},"data":{"x":"y"}}`, "replace", "--raw", path, "-f", "-")
		mustContain(t, p.Kubectl("delete", "--raw", path), `"status":"Success"`)
	})
	t.Run("outputs", func(t *testing.T) {
		mustContain(t, p.Kubectl("get", "cm", "-o", "custom-columns=N:.metadata.name", "--sort-by=.metadata.name"), "N\n", "kube-root-ca.crt\n")
		mustContain(t, p.Kubectl("get", "cm", "-o", "go-template={{range .items}}{{.metadata.name}};{{end}}"), "kube-root-ca.crt;")
		mustContain(t, p.Kubectl("get", "deploy,svc", "--show-labels"), "deployment.apps/web", "app=web", "service/kubernetes")
		mustContain(t, p.Kubectl("api-resources", "--api-group=apps", "--verbs=list", "--namespaced", "-o", "name"), "deployments.apps")
	})
}

// What clients rely on when they delete: options, preconditions, finalizers, and collections by selector.
func TestDelete(t *testing.T) {
	p := startCluster(t, "--nodes", "0")
	c, ctx := p.Client().CoreV1().ConfigMaps("default"), t.Context()
	create := func(name string, labels map[string]string, finalizers ...string) *corev1.ConfigMap {
		t.Helper()
		made, err := c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Finalizers: finalizers}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return made
	}

	made := create("held", nil, "example.com/hold")
	wrong := types.UID("x")
	if err := c.Delete(ctx, "held", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &wrong}}); !apierrors.IsConflict(err) {
		t.Errorf("with another UID: %v", err)
	}
	if err := c.Delete(ctx, "held", metav1.DeleteOptions{DryRun: []string{"All"}}); err != nil {
		t.Error(err)
	}
	if got, err := c.Get(ctx, "held", metav1.GetOptions{}); err != nil || got.DeletionTimestamp != nil {
		t.Errorf("after a dry run: %v, %v", got, err)
	}
	if err := c.Delete(ctx, "held", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(made.UID))}); err != nil {
		t.Fatal(err)
	}
	got, err := c.Get(ctx, "held", metav1.GetOptions{})
	if err != nil || got.DeletionTimestamp == nil || *got.DeletionGracePeriodSeconds != 0 {
		t.Fatalf("held by its finalizer: %+v, %v", got, err)
	}
	got.Finalizers = append(got.Finalizers, "example.com/more")
	if _, err := c.Update(ctx, got, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "no new finalizers can be added if the object is being deleted") {
		t.Errorf("a new finalizer: %v", err)
	}
	if _, err := c.Patch(ctx, "held", types.JSONPatchType, []byte(`[{"op":"remove","path":"/metadata/finalizers"}]`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, "held", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without finalizers: %v", err)
	}

	for i := range 12 {
		create(fmt.Sprintf("many-%02d", i), map[string]string{"odd": fmt.Sprint(i%2 == 1), "many": "yes"})
	}
	if err := c.DeleteCollection(ctx, metav1.DeleteOptions{DryRun: []string{"All"}}, metav1.ListOptions{LabelSelector: "many=yes"}); err != nil {
		t.Error(err)
	}
	if err := c.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "odd=true"}); err != nil {
		t.Error(err)
	}
	if err := c.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=many-00"}); err != nil {
		t.Error(err)
	}
	left, err := c.List(ctx, metav1.ListOptions{LabelSelector: "many"})
	if err != nil || len(left.Items) != 5 || left.Items[0].Name != "many-02" {
		t.Errorf("left: %v, %v", left, err)
	}
}
