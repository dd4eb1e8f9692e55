package test

import (
	"fmt"
	"strings"
	"testing"

	"vigil/internal/eventually"
	"vigil/test/harness"
)

// columns are the header of a table and its row of one name, with single blanks.
func columns(table, name string) (header, row string) {
	for i, line := range strings.Split(table, "\n") {
		fields := strings.Fields(line)
		switch {
		case i == 0:
			header = strings.Join(fields, " ")
		case len(fields) > 0 && fields[0] == name:
			row = strings.Join(fields, " ")
		}
	}
	return header, row
}

// Everything that `kubectl create` can make, made, and then seen in its table.
func TestKubectl_Create(t *testing.T) {
	p := startCluster(t)
	p.Kubectl("create", "namespace", "team")
	in := func(args ...string) []string { return append([]string{"-n", "team"}, args...) }
	for _, c := range []struct {
		create []string
		get    string // resource, name
		header string // "" is not looked at
		row    string // its beginning
	}{
		{[]string{"configmap", "c", "--from-literal=a=b", "--from-literal=c=d"}, "configmaps c", "NAME DATA AGE", "c 2 "},
		{[]string{"secret", "generic", "g", "--from-literal=a=b"}, "secrets g", "NAME TYPE DATA AGE", "g Opaque 1 "},
		{[]string{"secret", "docker-registry", "dr", "--docker-username=a", "--docker-password=b", "--docker-server=x"}, "secrets dr", "", "dr kubernetes.io/dockerconfigjson 1 "},
		{[]string{"serviceaccount", "robot"}, "sa robot", "NAME SECRETS AGE", "robot 0 "},
		{[]string{"service", "clusterip", "plain", "--tcp=80:8080"}, "svc plain", "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE", "plain ClusterIP 10."},
		{[]string{"service", "clusterip", "headless", "--clusterip=None"}, "svc headless", "", "headless ClusterIP None <none> <none> "},
		{[]string{"service", "nodeport", "node", "--tcp=80", "--node-port=30123"}, "svc node", "", "node NodePort 10."},
		{[]string{"service", "loadbalancer", "lb", "--tcp=80"}, "svc lb", "", "lb LoadBalancer 10."},
		{[]string{"service", "externalname", "ext", "--external-name=a.example"}, "svc ext", "", "ext ExternalName <none> a.example <none> "},
		{[]string{"deployment", "web", "--image=demo", "--replicas=2", "--port=80"}, "deploy web", "NAME READY UP-TO-DATE AVAILABLE AGE", "web "},
		{[]string{"job", "once", "--image=demo", "--", "true"}, "jobs once", "NAME STATUS COMPLETIONS DURATION AGE", "once "},
		{[]string{"cronjob", "nightly", "--image=demo", "--schedule=1 3 * * *", "--", "true"}, "cj nightly", "NAME SCHEDULE TIMEZONE SUSPEND ACTIVE LAST SCHEDULE AGE", "nightly 1 3 * * * <none> False 0 <none> "},
		{[]string{"job", "by-hand", "--from=cronjob/nightly"}, "jobs by-hand", "", "by-hand "},
		{[]string{"ingress", "ing", "--class=some", "--rule=a.example/*=plain:80,tls=cert"}, "ing ing", "NAME CLASS HOSTS ADDRESS PORTS AGE", "ing some a.example 80, 443 "},
		{[]string{"role", "ro", "--verb=get,list", "--resource=pods,deployments.apps"}, "roles ro", "NAME CREATED AT", "ro 2"},
		{[]string{"rolebinding", "rb", "--role=ro", "--user=bob", "--serviceaccount=team:robot"}, "rolebindings rb", "NAME ROLE AGE", "rb Role/ro "},
		{[]string{"quota", "q", "--hard=cpu=1,pods=2"}, "quota q", "NAME REQUEST LIMIT AGE", "q "},
		{[]string{"poddisruptionbudget", "pdb", "--selector=app=web", "--min-available=1"}, "pdb pdb", "NAME MIN AVAILABLE MAX UNAVAILABLE ALLOWED DISRUPTIONS AGE", "pdb 1 N/A "},
		{[]string{"clusterrole", "cro", "--verb=get", "--non-resource-url=/x"}, "clusterroles cro", "NAME CREATED AT", "cro 2"},
		{[]string{"clusterrolebinding", "crb", "--clusterrole=cro", "--group=g"}, "clusterrolebindings crb", "NAME ROLE AGE", "crb ClusterRole/cro "},
		{[]string{"priorityclass", "high", "--value=10", "--description=x"}, "pc high", "NAME VALUE GLOBAL-DEFAULT AGE PREEMPTIONPOLICY", "high 10 false "},
	} {
		p.Kubectl(in(append([]string{"create"}, c.create...)...)...)
		resource, name, _ := strings.Cut(c.get, " ")
		header, row := columns(p.Kubectl(in("get", resource)...), name)
		if c.header != "" && header != c.header {
			t.Errorf("%s: columns %q, want %q", resource, header, c.header)
		}
		if !strings.HasPrefix(row, c.row) {
			t.Errorf("%s: row %q, want %q", c.get, row, c.row)
		}
	}

	if token := p.Kubectl(in("create", "token", "robot", "--duration=20m", "--audience=someone")...); strings.Count(token, ".") != 2 {
		t.Errorf("the token is %q", token)
	}
	mustContain(t, p.KubectlFails("", in("create", "token", "nobody")...), `serviceaccounts "nobody" not found`)
	mustContain(t, p.KubectlFails("", in("create", "service", "nodeport", "again", "--tcp=80", "--node-port=30123")...),
		`Service "again" is invalid: spec.ports[0].nodePort: Invalid value: 30123: provided port is already allocated`)

	p.Kubectl(in("rollout", "status", "deploy/web")...)
	p.Kubectl(in("autoscale", "deployment", "web", "--min=1", "--max=3", "--cpu=60%")...)
	for _, resource := range []string{"hpa", "horizontalpodautoscalers.v1.autoscaling"} {
		if _, row := columns(p.Kubectl(in("get", resource)...), "web"); !strings.HasPrefix(row, "web Deployment/web cpu: <unknown>/60% 1 3 ") {
			t.Errorf("%s: %q", resource, row)
		}
	}
	mustContain(t, p.Kubectl("auth", "whoami"), "kubernetes-admin", "system:masters")
	mustContain(t, p.Kubectl("auth", "can-i", "create", "pods"), "yes")
}

// A node is emptied by evictions, which a budget holds up.
func TestKubectl_Drain(t *testing.T) {
	p := startCluster(t, "--nodes", "2")
	p.Kubectl("create", "deployment", "web", "--image=demo", "--replicas=2")
	p.Kubectl("rollout", "status", "deploy/web")
	p.Kubectl("create", "pdb", "web", "--selector=app=web", "--min-available=2")
	p.Kubectl("patch", "pdb", "web", "--subresource=status", "--type=merge", "-p",
		`{"status":{"observedGeneration":1,"disruptionsAllowed":0,"currentHealthy":2,"desiredHealthy":2,"expectedPods":2}}`)
	p.Kubectl("taint", "node", "node-2", "a=b:PreferNoSchedule")
	p.Kubectl("taint", "node", "node-2", "a-")
	p.Kubectl("label", "node", "node-2", "disk=fast")
	if got := p.Kubectl("get", "nodes", "-l", "disk=fast", "-o", "name"); got != "node/node-2\n" {
		t.Errorf("by label: %q", got)
	}
	for _, node := range []string{"node-1", "node-2"} {
		p.Kubectl("cordon", node)
	}
	if _, row := columns(p.Kubectl("get", "nodes"), "node-1"); !strings.Contains(row, "Ready,SchedulingDisabled") {
		t.Errorf("a cordoned node: %q", row)
	}
	pod := strings.Fields(p.Kubectl("get", "pods", "-l", "app=web", "-o", "name"))[0]
	node := strings.TrimSpace(p.Kubectl("get", pod, "-o", "jsonpath={.spec.nodeName}"))
	said := p.KubectlFails("", "drain", node, "--timeout=1s")
	mustContain(t, said, "Cannot evict pod as it would violate the pod's disruption budget.")
	p.Kubectl("uncordon", "node-1")
	p.Kubectl("uncordon", "node-2")
	p.Kubectl("delete", "pdb", "web")
	p.Kubectl("drain", node, harness.InTime)
	eventually.Nil(t, "two pods elsewhere", func() error {
		names := strings.Fields(p.Kubectl("get", "pods", "-l", "app=web", "-o", "name", "--field-selector", "status.phase=Running,spec.nodeName!="+node))
		if len(names) != 2 {
			return fmt.Errorf("%v", names)
		}
		return nil
	})
}

// kubectl explains every kind to its last field, and pods with what upstream says of them.
func TestKubectl_Explain(t *testing.T) {
	p := startCluster(t)
	got := p.Kubectl("explain", "pod.spec.containers.livenessProbe")
	mustContain(t, got, "KIND:       Pod", "FIELD: livenessProbe <Probe>", "initialDelaySeconds\t<integer>", "httpGet\t<HTTPGetAction>")
	got = p.Kubectl("explain", "pod.spec.restartPolicy")
	mustContain(t, got, "ENUM:\n    Always\n    Never\n    OnFailure\n")
	got = p.Kubectl("explain", "--recursive", "deployment")
	mustContain(t, got, "GROUP:      apps", "maxSurge", "terminationGracePeriodSeconds", "enum: ")
	mustContain(t, p.Kubectl("explain", "pod", "--output", "plaintext-openapiv2"), "KIND:     Pod", "spec\t<Object>")
	mustContain(t, p.Kubectl("explain", "hpa", "--api-version=autoscaling/v1", "--recursive"), "targetCPUUtilizationPercentage")
	mustContain(t, p.Kubectl("explain", "events", "--api-version=events.k8s.io/v1"), "regarding", "note")

	for line := range strings.Lines(p.Kubectl("api-resources", "--no-headers")) {
		fields := strings.Fields(line)
		kind, version := fields[len(fields)-1], fields[len(fields)-3]
		t.Run(fields[0]+"."+version, func(t *testing.T) {
			got, stderr, err := p.TryKubectl("", "explain", fields[0], "--api-version="+version, "--recursive")
			if err != nil {
				t.Fatalf("%v: %s", err, stderr)
			}
			mustContain(t, got, "KIND:       "+kind+"\n", "apiVersion\t<string>", "metadata\t<ObjectMeta>")
			if strings.Contains(got, "<empty>") {
				t.Errorf("fields without description:\n%s", got)
			}
		})
	}
}
