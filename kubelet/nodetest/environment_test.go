package nodetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (n *Node) configMap(name string, data map[string]string) {
	n.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
	if _, err := n.Client.CoreV1().ConfigMaps("default").Create(n.t.Context(), object, metav1.CreateOptions{}); err != nil {
		n.t.Fatal(err)
	}
}

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func TestEnvironment(t *testing.T) {
	node := Start(t, nil)
	node.configMap("settings", map[string]string{"color": "blue"})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "login"}, Data: map[string][]byte{"user": []byte("me")}}
	if _, err := node.Client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.77", Ports: []corev1.ServicePort{{Port: 5432}}}}
	if _, err := node.Client.CoreV1().Services("default").Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := Pod("env", "serve", "-version-text", "$(GREETING) $$(GREETING)")
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	pod.Spec.InitContainers = []corev1.Container{{
		Name: "init", Image: "demo:1", Args: []string{"write", "/scratch/vars", "FROM_FILE='made by init'"},
		VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
	}}
	c := &pod.Spec.Containers[0]
	c.EnvFrom = []corev1.EnvFromSource{
		{Prefix: "CM_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("settings")}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("none"), Optional: new(true)}},
	}
	c.Env = []corev1.EnvVar{
		{Name: "GREETING", Value: "hello"},
		{Name: "DB", Value: "$(DB_SERVICE_HOST):$(DB_SERVICE_PORT)"},
		{Name: "USER_NAME", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("login"), Key: "user"}}},
		{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
		{Name: "HOST_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.hostIP"}}},
		{Name: "CPUS", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu"}}},
		{Name: "odd.name-1", Value: "odd"},
		{Name: "FROM_FILE", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "scratch", Path: "vars", Key: "FROM_FILE"}}},
	}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/mine", SubPathExpr: "of-$(USER_NAME)"}}
	node.Create(pod)
	running := node.Ready("env")
	seen := "\n" + node.Exec(running, "env") + "\n"
	for _, want := range []string{
		"CM_color=blue", "GREETING=hello", "DB=10.0.0.77:5432", "USER_NAME=me", "IP=" + running.Status.PodIP, "HOST_IP=" + Address, "CPUS=0",
		"odd.name-1=odd", "FROM_FILE=made by init", "DB_PORT=tcp://10.0.0.77:5432", "HOSTNAME=env",
	} {
		if !strings.Contains(seen, "\n"+want+"\n") {
			t.Errorf("%s is not in%s", want, seen)
		}
	}
	if version := node.Exec(running, "fetch", "http://localhost:8080/version"); strings.TrimSpace(version) != "hello $(GREETING)" {
		t.Errorf("its argument was %q", version)
	}
	node.Exec(running, "write", "/mine/note", "x")

	for name, want := range map[string]struct {
		from    corev1.EnvVarSource
		message string
	}{
		"no-map":  {corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("none"), Key: "k"}}, `configmap "none" not found`},
		"no-key":  {corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("settings"), Key: "k"}}, "couldn't find key k in ConfigMap default/settings"},
		"no-auth": {corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("none"), Key: "k"}}, `secret "none" not found`},
	} {
		pod := Pod(name, "serve")
		pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "X", ValueFrom: &want.from}}
		node.Create(pod)
		defer node.Event(name, "Failed", "Error: "+want.message)
		defer node.Await(name, "waits with "+want.message, func(pod *corev1.Pod) error {
			if len(pod.Status.ContainerStatuses) > 0 {
				if w := pod.Status.ContainerStatuses[0].State.Waiting; w != nil && w.Reason == "CreateContainerConfigError" && w.Message == want.message {
					return nil
				}
			}
			return errors.New("it does not")
		})
	}
}

// A container that waited for a ConfigMap starts when it comes.
func TestEnvironment_Late(t *testing.T) {
	node := Start(t, nil)
	pod := Pod("late", "serve")
	pod.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("later")}}}
	node.Create(pod)
	node.Event("late", "Failed", `Error: configmap "later" not found`)
	node.configMap("later", map[string]string{"K": "v"})
	if seen := node.Exec(node.Ready("late"), "env"); !strings.Contains(seen, "K=v\n") {
		t.Errorf("its environment is %s", seen)
	}
}

func TestFiles(t *testing.T) {
	node := Start(t, nil)
	pod := Pod("web", "serve")
	pod.Spec.Hostname, pod.Spec.Subdomain = "front", "shop"
	pod.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.9", Hostnames: []string{"a.example", "b.example"}}}
	pod.Spec.DNSConfig = &corev1.PodDNSConfig{Searches: []string{"example.com"}, Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}}}
	node.Create(pod)

	fqdn := Pod("fqdn", "serve")
	fqdn.Spec.Subdomain, fqdn.Spec.SetHostnameAsFQDN = "shop", new(true)
	fqdn.Spec.DNSPolicy, fqdn.Spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.53", "192.0.2.54", "192.0.2.55"}}
	node.Create(fqdn)

	override := Pod("override", "serve")
	override.Spec.HostnameOverride, override.Spec.DNSPolicy = new("any.name"), corev1.DNSDefault
	node.Create(override)

	host := Pod("host", "serve", "-listen", "127.0.0.1:8081")
	host.Spec.HostNetwork, host.Spec.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet
	host.Spec.HostAliases = pod.Spec.HostAliases
	host.Spec.Containers[0].ReadinessProbe = nil // it serves elsewhere
	node.Create(host)

	web := node.Ready("web")
	want := fmt.Sprintf("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n"+
		"fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n%s\tfront.shop.default.svc.cluster.local\tfront\n\n"+
		"# Entries added by HostAliases.\n192.0.2.9\ta.example\tb.example\n", web.Status.PodIP)
	if got := node.Exec(web, "cat", "/etc/hosts"); got != want {
		t.Errorf("/etc/hosts is\n%s\nnot\n%s", got, want)
	}
	is := func(pod *corev1.Pod, name, resolv string) {
		t.Helper()
		if got := strings.TrimSpace(node.Exec(pod, "hostname")); got != name {
			t.Errorf("%s calls itself %q, not %q", pod.Name, got, name)
		}
		if got := node.Exec(pod, "cat", "/etc/resolv.conf"); got != resolv {
			t.Errorf("%s has the resolv.conf\n%s\nnot\n%s", pod.Name, got, resolv)
		}
	}
	const search = "search default.svc.cluster.local svc.cluster.local cluster.local"
	is(web, "front", search+" example.com\nnameserver 10.96.0.10\noptions ndots:2\n")
	is(node.Ready("fqdn"), "fqdn.shop.default.svc.cluster.local", "nameserver 192.0.2.53\nnameserver 192.0.2.54\nnameserver 192.0.2.55\n")
	is(node.Ready("override"), "any.name", "nameserver 127.0.0.1\n")
	onHost := node.Ready("host")
	is(onHost, strings.TrimSpace(node.Exec(onHost, "hostname")), search+"\nnameserver 10.96.0.10\noptions ndots:5\n")
	if got := node.Exec(onHost, "cat", "/etc/hosts"); !strings.HasPrefix(got, "# Kubernetes-managed hosts file (host network).\n") || !strings.HasSuffix(got, "\n192.0.2.9\ta.example\tb.example\n") {
		t.Errorf("on the host's network /etc/hosts is\n%s", got)
	}
}
