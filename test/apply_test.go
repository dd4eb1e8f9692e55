package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const appliedManifest = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d, labels: {app: d}}
spec:
  replicas: 1
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}}
    spec:
      containers:
      - name: web
        image: demo:v1
        ports: [{containerPort: 80}, {containerPort: 80, protocol: UDP}]
`

// mustContain complains about each part that is missing in a text.
func mustContain(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

// One story of server-side apply as kubectl tells it: two managers, a fight, a truce, and an object that was applied by the client before.
func TestKubectl_ServerSideApply(t *testing.T) {
	p := startCluster(t)
	apply := func(args ...string) []string {
		return append([]string{"apply", "--server-side", "-f", "-"}, args...)
	}
	get := func(what, path string) string { return p.Kubectl("get", what, "-o", "jsonpath="+path) }
	other := strings.NewReplacer("replicas: 1", "replicas: 2", "demo:v1", "demo:v2").Replace(appliedManifest)

	t.Run("create and repeat", func(t *testing.T) {
		mustContain(t, p.KubectlIn(appliedManifest, apply()...), "deployment.apps/d serverside-applied")
		version := get("deploy/d", "{.metadata.generation}")
		p.KubectlIn(appliedManifest, apply()...)
		if again := get("deploy/d", "{.metadata.generation}"); again != version {
			t.Errorf("the same once more made generation %s of %s", again, version)
		}
	})
	t.Run("conflict", func(t *testing.T) {
		said := p.KubectlFails(other, apply("--field-manager=other")...)
		mustContain(t, said, "Apply failed with 2 conflicts: conflicts with \"kubectl\":\n- .spec.replicas\n- .spec.template.spec.containers[name=\"web\"].image\n")
	})
	t.Run("force", func(t *testing.T) {
		p.KubectlIn(other, apply("--field-manager=other", "--force-conflicts")...)
		if got := get("deploy/d", "{.spec.replicas} {.spec.template.spec.containers[*].image}"); got != "2 demo:v2" {
			t.Errorf("got %q", got)
		}
		managers := get("deploy/d", "{.metadata.managedFields[?(@.operation=='Apply')].manager}")
		if managers != "kubectl other" {
			t.Errorf("managers are %q", managers)
		}
		mustContain(t, p.KubectlFails(appliedManifest, apply()...), `conflicts with "other"`)
	})
	t.Run("what nobody wants any more goes", func(t *testing.T) {
		without := strings.Replace(appliedManifest, ", {containerPort: 80, protocol: UDP}", "", 1)
		without = strings.Replace(without, "  replicas: 1\n", "", 1)
		without = strings.Replace(without, "        image: demo:v1\n", "", 1)
		p.KubectlIn(without, apply()...)
		if got := get("deploy/d", "{.spec.template.spec.containers[0].ports[*].protocol}"); got != "TCP UDP" {
			t.Errorf("the other manager wants both ports, got %q", got)
		}
		p.KubectlIn(strings.Replace(without, "- name: web\n", "- name: web\n        image: demo:v2\n", 1), apply("--field-manager=other")...)
		if got := get("deploy/d", "{.spec.template.spec.containers[0].ports[*].protocol} {.spec.replicas}"); got != "TCP 1" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("an updating manager is named with its operation", func(t *testing.T) {
		p.Kubectl("create", "configmap", "made", "--from-literal=a=1")
		said := p.KubectlFails("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\ndata: {a: \"2\"}\n", apply()...)
		mustContain(t, said, `Apply failed with 1 conflict: conflict with "kubectl-create" using v1: .data.a`)
	})
	t.Run("field manager of an update", func(t *testing.T) {
		p.Kubectl("label", "configmap", "made", "x=y", "--field-manager=labeller")
		if got := get("cm/made", "{.metadata.managedFields[*].manager}"); !strings.Contains(got, "labeller") {
			t.Errorf("managers are %q", got)
		}
	})
	t.Run("status", func(t *testing.T) {
		p.KubectlIn(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":7},"status":{"conditions":[{"type":"Odd","status":"True"}]}}`,
			apply("--subresource=status", "--field-manager=watcher")...)
		if got := get("deploy/d", `{.status.conditions[?(@.type=="Odd")].status} {.spec.replicas}`); got != "True 1" {
			t.Errorf("got %q", got)
		}
		if got := get("deploy/d", `{.metadata.managedFields[?(@.manager=="watcher")].subresource}`); got != "status" {
			t.Errorf("the entry's subresource is %q", got)
		}
	})
	t.Run("dry run and diff", func(t *testing.T) {
		changed := strings.Replace(appliedManifest, "demo:v1", "demo:v3", 1)
		printed := p.KubectlIn(changed, apply("--dry-run=server", "--force-conflicts", "-o", "jsonpath={.spec.template.spec.containers[0].image}")...)
		if printed != "demo:v3" {
			t.Errorf("the dry run printed %q", printed)
		}
		for _, args := range [][]string{{"diff", "-f", "-"}, {"diff", "--server-side", "--force-conflicts", "-f", "-"}} {
			stdout, stderr, err := p.TryKubectl(changed, args...)
			if err == nil || !strings.Contains(stdout, "+      - image: demo:v3") {
				t.Errorf("%v: %v\n%s%s", args, err, stdout, stderr)
			}
		}
		if got := get("deploy/d", "{.spec.template.spec.containers[0].image}"); got == "demo:v3" {
			t.Error("looking changed the object")
		}
	})
	t.Run("upgrade from applies of the client", func(t *testing.T) {
		manifest := filepath.Join(t.TempDir(), "cm.yaml")
		write := func(data string) {
			text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old}\ndata: " + data + "\n"
			if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("{a: b, c: d}")
		p.Kubectl("apply", "-f", manifest)
		write("{a: b}")
		mustContain(t, p.Kubectl("apply", "--server-side", "-f", manifest), "configmap/old serverside-applied")
		if got := get("cm/old", "{.data}"); got != `{"a":"b"}` {
			t.Errorf("the data are %s", got)
		}
		if got := get("cm/old", "{.metadata.managedFields[*].manager}"); strings.Contains(got, "kubectl-client-side-apply") {
			t.Errorf("managers are %q", got)
		}
		// And back.
		write("{a: z}")
		p.Kubectl("apply", "-f", manifest)
		if got := get("cm/old", "{.data}"); got != `{"a":"z"}` {
			t.Errorf("the data are %s", got)
		}
	})
	t.Run("ports of services merge by port and protocol", func(t *testing.T) {
		service := func(ports string) string {
			return "apiVersion: v1\nkind: Service\nmetadata: {name: dns}\nspec: {selector: {app: dns}, ports: [" + ports + "]}\n"
		}
		p.KubectlIn(service("{name: a, port: 53, protocol: UDP}"), apply("--field-manager=one")...)
		p.KubectlIn(service("{name: b, port: 53, protocol: TCP}"), apply("--field-manager=two")...)
		if got := get("svc/dns", "{range .spec.ports[*]}{.name}/{.port}/{.protocol} {end}"); got != "a/53/UDP b/53/TCP " {
			t.Errorf("ports are %q", got)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		for name, c := range map[string]struct{ body, want string }{
			"unknown field":  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndatta: {}\n", ".datta: field not declared in schema"},
			"managed fields": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, managedFields: [{manager: a}]}\n", "metadata.managedFields must be nil"},
			"invalid":        {"apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: 70000}]}\n", "spec.ports[0].port: Invalid value: 70000"},
		} {
			if said := p.KubectlFails(c.body, apply("--validate=false")...); !strings.Contains(said, c.want) {
				t.Errorf("%s: %q is missing in: %s", name, c.want, said)
			}
		}
	})
}
