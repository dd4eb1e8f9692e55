package test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"vigil/internal/eventually"
	"vigil/test/harness"
)

// templates is a chart's worth of kinds, by file name.
var templates = map[string]string{
	"serviceaccount": "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: app}",
	"configmap":      "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\ndata: {color: {{ .Values.color }}, fixed: \"1\"}",
	"secret":         "apiVersion: v1\nkind: Secret\nmetadata: {name: app}\nstringData: {password: {{ .Values.color }}}",
	"service":        "apiVersion: v1\nkind: Service\nmetadata: {name: app}\nspec: {selector: {app: web}, ports: [{name: http, port: {{ .Values.port }}, targetPort: 80}]}",
	"pvc":            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: app}\nspec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}",
	"quota":          "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: app}\nspec: {hard: {configmaps: \"100\"}}",
	"limits":         "apiVersion: v1\nkind: LimitRange\nmetadata: {name: app}\nspec: {limits: [{type: Container, max: {cpu: \"1\"}}]}",
	"deployment": `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {color: {{ .Values.color }}}}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: app
      containers:
      - {name: web, image: "demo:{{ .Values.color }}", ports: [{containerPort: 80}]}
{{- if .Values.sidecar }}
      - {name: side, image: side}
{{- end }}`,
	"statefulset":   "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec: {replicas: 1, serviceName: db, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: db, image: db}]}}}",
	"daemonset":     "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec: {selector: {matchLabels: {app: agent}}, template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: a, image: a}]}}}",
	"job":           "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: j, image: j}]}}}",
	"cronjob":       "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec: {schedule: \"{{ .Values.minute }} 3 * * *\", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: j, image: j}]}}}}}",
	"hpa":           "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: db}\nspec: {scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}, minReplicas: 1, maxReplicas: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]}",
	"pdb":           "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web}\nspec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}",
	"ingress":       "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: web}\nspec: {ingressClassName: some, rules: [{host: a.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: app, port: {number: {{ .Values.port }}}}}}]}}]}",
	"ingressclass":  "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: some}\nspec: {controller: example.com/some}",
	"networkpolicy": "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: web}\nspec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress], ingress: [{ports: [{port: {{ .Values.port }}}]}]}",
	"role":          "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: app}\nrules: [{apiGroups: [\"\"], resources: [configmaps], verbs: [get]}]",
	"rolebinding":   "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: app}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: app}\nsubjects: [{kind: ServiceAccount, name: app, namespace: {{ .Release.Namespace }}}]",
	"clusterrole":   "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: app}\nrules: [{nonResourceURLs: [/metrics], verbs: [get]}]",
	"clusterrolebinding": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: app}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: app}\n" +
		"subjects: [{kind: ServiceAccount, name: app, namespace: {{ .Release.Namespace }}}]",
	"priorityclass": "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: app}\nvalue: 1000",
	"storageclass":  "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: app}\nprovisioner: example.com/none",
	"extra":         "{{ if .Values.extra }}\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n{{ end }}",
	"hook":          "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: before, annotations: {helm.sh/hook: \"pre-install,pre-upgrade\", helm.sh/hook-delete-policy: before-hook-creation}}",
}

func aChart() *chart.Chart {
	c := &chart.Chart{
		Metadata: &chart.Metadata{APIVersion: chart.APIVersionV2, Name: "demo", Version: "1.0.0", KubeVersion: ">=1.30.0-0"},
		Values:   map[string]any{"color": "blue", "replicas": 2, "port": 80, "minute": 1, "sidecar": false, "extra": false},
	}
	for _, name := range slices.Sorted(maps.Keys(templates)) {
		c.Templates = append(c.Templates, &chart.File{Name: "templates/" + name + ".yaml", Data: []byte(templates[name])})
	}
	return c
}

// The life of a Helm release: install and wait, upgrade over a change that somebody made by hand, roll back, uninstall.
func TestHelm(t *testing.T) {
	p := startCluster(t)
	p.Kubectl("create", "namespace", "team")
	flags := genericclioptions.NewConfigFlags(false)
	path, namespace := p.Kubeconfig(), "team"
	flags.KubeConfig, flags.Namespace = &path, &namespace
	helm := new(action.Configuration)
	if err := helm.Init(flags, "team", "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	get := func(what, path string) string { return p.Kubectl("get", "-n", "team", what, "-o", "jsonpath="+path) }

	install := action.NewInstall(helm)
	install.ReleaseName, install.Namespace, install.Timeout = "demo", "team", eventually.Limit
	done, err := install.RunWithContext(context.Background(), aChart(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if done.Info.Status != release.StatusDeployed {
		t.Errorf("installed: %s", done.Info.Status)
	}
	if kinds := strings.Count(done.Manifest, "\nkind: "); kinds != len(templates)-2 {
		t.Errorf("the release has %d objects, want %d", kinds, len(templates)-2)
	}
	p.Kubectl("rollout", "status", "-n", "team", "deploy/web", harness.InTime)
	if got := get("cm/app", `{.data.color} {.metadata.labels.app\.kubernetes\.io/managed-by}`); got != "blue Helm" {
		t.Errorf("the config map has %q", got)
	}
	p.Kubectl("get", "-n", "team", "cm/before")

	// Somebody else adds what the chart does not speak of, and changes what it does.
	p.Kubectl("patch", "-n", "team", "cm/app", "--type=merge", "-p", `{"data":{"mine":"kept","fixed":"2"}}`)
	p.Kubectl("patch", "-n", "team", "deploy/web", "--type=strategic", "-p", `{"spec":{"template":{"spec":{"containers":[{"name":"injected","image":"x"}]}}}}`)
	upgrade := action.NewUpgrade(helm)
	upgrade.Namespace, upgrade.Timeout = "team", eventually.Limit
	_, err = upgrade.RunWithContext(context.Background(), "demo", aChart(), map[string]any{
		"color": "green", "port": 8080, "minute": 2, "sidecar": true, "extra": true, "replicas": 3})
	if err != nil {
		t.Fatal(err)
	}
	p.Kubectl("rollout", "status", "-n", "team", "deploy/web", harness.InTime)
	for _, c := range []struct{ what, path, want string }{
		{"cm/app", "{.data.color} {.data.fixed} {.data.mine}", "green 1 kept"},
		{"deploy/web", "{.spec.template.spec.containers[*].name}", "web side injected"},
		{"deploy/web", "{.spec.replicas} {.status.readyReplicas} {.metadata.labels.color}", "3 3 green"},
		{"svc/app", "{.spec.ports[*].port}", "8080"},
		{"ing/web", "{.spec.rules[0].http.paths[0].backend.service.port.number}", "8080"},
		{"netpol/web", "{.spec.ingress[0].ports[0].port}", "8080"},
		{"cronjob/nightly", "{.spec.schedule}", "2 3 * * *"},
		{"secret/app", "{.data.password}", "Z3JlZW4="},
		{"cm/extra", "{.metadata.name}", "extra"},
	} {
		if got := get(c.what, c.path); !sameWords(got, c.want) {
			t.Errorf("after the upgrade %s has %q, want %q", c.what, got, c.want)
		}
	}

	back := action.NewRollback(helm)
	back.Version, back.Timeout = 1, eventually.Limit
	if err := back.Run("demo"); err != nil {
		t.Fatal(err)
	}
	p.Kubectl("rollout", "status", "-n", "team", "deploy/web", harness.InTime)
	for _, c := range []struct{ what, path, want string }{
		{"cm/app", "{.data.color} {.data.mine}", "blue kept"},
		{"deploy/web", "{.spec.template.spec.containers[*].name} {.spec.replicas}", "web injected 2"},
		{"svc/app", "{.spec.ports[*].port}", "80"},
	} {
		if got := get(c.what, c.path); !sameWords(got, c.want) {
			t.Errorf("after the rollback %s has %q, want %q", c.what, got, c.want)
		}
	}
	if _, err := p.Client().CoreV1().ConfigMaps("team").Get(context.Background(), "extra", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what only the upgrade had: %v", err)
	}
	history, err := action.NewHistory(helm).Run("demo")
	if err != nil || len(history) != 3 {
		t.Errorf("history: %v, %v", history, err)
	}

	away := action.NewUninstall(helm)
	away.Wait, away.Timeout = true, eventually.Limit
	if _, err := away.Run("demo"); err != nil {
		t.Fatal(err)
	}
	eventually.Nil(t, "the namespace is as it was", func() error {
		left := p.Kubectl("get", "-n", "team", "deploy,sts,ds,rs,pods,jobs,cronjobs,svc,ing,netpol,pdb,hpa,pvc,quota,limits,roles,rolebindings,secrets", "-o", "name")
		if left != "" {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	})
	if left := p.Kubectl("get", "clusterrole,clusterrolebinding,pc,sc,ingressclass", "-o", "name"); strings.Contains(left, "/app\n") || strings.Contains(left, "/some\n") {
		t.Errorf("left: %s", left)
	}
}

// sameWords says that two texts have the same words in any order: merged lists keep no particular one.
func sameWords(a, b string) bool {
	return slices.Equal(slices.Sorted(slices.Values(strings.Fields(a))), slices.Sorted(slices.Values(strings.Fields(b))))
}
