package etcfiles

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kubelet"
)

func testPod(name string, change func(*corev1.PodSpec)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: "1-2"}, Spec: corev1.PodSpec{DNSPolicy: corev1.DNSClusterFirst}}
	if change != nil {
		change(&pod.Spec)
	}
	return pod
}

func TestNameOf(t *testing.T) {
	long := strings.Repeat("a", 60)
	tests := []struct {
		pod    *corev1.Pod
		want   Name
		kernel string
		fails  string
	}{
		{testPod("web", nil), Name{Host: "web"}, "web", ""},
		{testPod("web", func(s *corev1.PodSpec) { s.HostNetwork = true }), Name{Host: "web"}, "", ""},
		{testPod("web", func(s *corev1.PodSpec) { s.Hostname = "h" }), Name{Host: "h"}, "h", ""},
		{testPod("web", func(s *corev1.PodSpec) { s.Subdomain = "db" }), Name{"web", "db.ns.svc.cluster.local"}, "web", ""},
		{testPod("web", func(s *corev1.PodSpec) { s.Subdomain, s.SetHostnameAsFQDN = "db", new(true) }), Name{"web", "db.ns.svc.cluster.local"}, "web.db.ns.svc.cluster.local", ""},
		{testPod("web", func(s *corev1.PodSpec) { s.SetHostnameAsFQDN = new(true) }), Name{Host: "web"}, "web", ""},
		{testPod("web", func(s *corev1.PodSpec) { s.HostnameOverride, s.Subdomain = new("any.example"), "db" }), Name{Host: "any.example"}, "any.example", ""},
		{testPod(long+".-bcd", nil), Name{Host: long + ".-b"}, long + ".-b", ""},
		{testPod(long+"a.-bcd", nil), Name{Host: long + "a"}, long + "a", ""},
		{testPod("web", func(s *corev1.PodSpec) { s.Hostname = "a.b" }), Name{}, "", `pod Hostname "a.b" is not a valid DNS label: `},
		{testPod("web", func(s *corev1.PodSpec) { s.HostnameOverride = new("-") }), Name{}, "", `pod HostnameOverride "-" is not a valid DNS subdomain: `},
		{
			testPod(long, func(s *corev1.PodSpec) { s.Subdomain, s.SetHostnameAsFQDN = "db", new(true) }), Name{long, "db.ns.svc.cluster.local"}, "",
			"failed to construct FQDN from pod hostname and cluster domain, FQDN " + long + ".db.ns.svc.cluster.local is too long (64 characters is the max, 84 characters requested)",
		},
	}
	for _, test := range tests {
		name, err := NameOf(test.pod, "cluster.local")
		kernel := ""
		if err == nil {
			kernel, err = name.Kernel(test.pod)
		}
		switch {
		case test.fails != "":
			if err == nil || !strings.HasPrefix(err.Error(), test.fails) {
				t.Errorf("%s: got %v, want %s", test.pod.Name, err, test.fails)
			}
		case err != nil || name != test.want || kernel != test.kernel:
			t.Errorf("%s: got %+v %q, %v, want %+v %q", test.pod.Name, name, kernel, err, test.want, test.kernel)
		}
	}
}

func TestHosts(t *testing.T) {
	node := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(node, []byte("127.0.0.1 localhost node\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const head = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"
	aliases := []corev1.HostAlias{{IP: "192.0.2.9", Hostnames: []string{"a", "b.example"}}, {IP: "192.0.2.8", Hostnames: []string{"c"}}}
	tests := []struct {
		name string
		pod  *corev1.Pod
		of   Name
		want string
	}{
		{"plain", testPod("web", nil), Name{Host: "web"}, head + "10.244.0.7\tweb\nfd00::7\tweb\n"},
		{"domain", testPod("web", nil), Name{"web", "db.ns.svc.x"}, head + "10.244.0.7\tweb.db.ns.svc.x\tweb\nfd00::7\tweb.db.ns.svc.x\tweb\n"},
		{"aliases", testPod("web", func(s *corev1.PodSpec) { s.HostAliases = aliases }), Name{Host: "web"},
			head + "10.244.0.7\tweb\nfd00::7\tweb\n\n# Entries added by HostAliases.\n192.0.2.9\ta\tb.example\n192.0.2.8\tc\n"},
		{"host network", testPod("web", func(s *corev1.PodSpec) { s.HostNetwork, s.HostAliases = true, aliases[1:] }), Name{Host: "web"},
			"# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost node\n\n# Entries added by HostAliases.\n192.0.2.8\tc\n"},
	}
	for _, test := range tests {
		got, err := hosts(node, test.pod, test.of, []string{"10.244.0.7", "fd00::7"})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestWriteHosts(t *testing.T) {
	file, pod := filepath.Join(t.TempDir(), "etc-hosts"), testPod("web", nil)
	write := func(ip string) os.FileInfo {
		if err := writeHosts(file, pod, Name{Host: "web"}, []string{ip}); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	first := write("10.0.0.1")
	if first.Mode() != 0o644 {
		t.Errorf("the file has mode %v", first.Mode())
	}
	if again := write("10.0.0.1"); again.ModTime() != first.ModTime() {
		t.Error("an unchanged file was written")
	}
	changed := write("10.0.0.2")
	content, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(content, []byte("10.0.0.2\tweb\n")) || bytes.Contains(content, []byte("10.0.0.1\t")) {
		t.Errorf("after a change: %v, %s", err, content)
	}
	if !os.SameFile(first, changed) {
		t.Error("another file took its place: containers that have it mounted would not see it")
	}
}

func TestWantsHosts(t *testing.T) {
	ips := []string{"10.0.0.1"}
	own := &corev1.Container{VolumeMounts: []corev1.VolumeMount{{MountPath: "/etc/hosts"}}}
	if !wantsHosts(&corev1.Container{}, ips) || wantsHosts(&corev1.Container{}, nil) || wantsHosts(own, ips) {
		t.Error("want: with an address, not without one, not over a mount of the container's own")
	}
}

func dnsOf(servers, searches, options []string) kubelet.DNS {
	return kubelet.DNS{Servers: servers, Searches: searches, Options: options}
}

func TestResolver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	content := "# comment\nnameserver 192.0.2.53\n nameserver 192.0.2.54\nsearch lost.example\nsearch example.com. lan cluster.local\noptions ndots:1 rotate\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	searched := []string{"ns.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.com", "lan"}
	host := dnsOf([]string{"192.0.2.53", "192.0.2.54"}, []string{"example.com", "lan", "cluster.local"}, []string{"ndots:1", "rotate"})
	cluster := dnsOf([]string{"10.96.0.10"}, searched, []string{"ndots:5"})
	policy := func(policy corev1.DNSPolicy, hostNetwork bool, config *corev1.PodDNSConfig) *corev1.Pod {
		return testPod("web", func(s *corev1.PodSpec) { s.DNSPolicy, s.HostNetwork, s.DNSConfig = policy, hostNetwork, config })
	}
	tests := []struct {
		name    string
		pod     *corev1.Pod
		change  func(*Resolver)
		want    kubelet.DNS
		warning string
	}{
		{"cluster first", policy(corev1.DNSClusterFirst, false, nil), nil, cluster, ""},
		{"cluster first on the host's network", policy(corev1.DNSClusterFirst, true, nil), nil, host, ""},
		{"cluster first with host net", policy(corev1.DNSClusterFirstWithHostNet, true, nil), nil, cluster, ""},
		{"default", policy(corev1.DNSDefault, false, nil), nil, host, ""},
		{"none", policy(corev1.DNSNone, false, &corev1.PodDNSConfig{Nameservers: []string{"1.1.1.1"}, Searches: []string{"a"}, Options: []corev1.PodDNSConfigOption{{Name: "edns0"}}}), nil,
			dnsOf([]string{"1.1.1.1"}, []string{"a"}, []string{"edns0"}), ""},
		{"merged", policy(corev1.DNSClusterFirst, false, &corev1.PodDNSConfig{
			Nameservers: []string{"10.96.0.10", "1.1.1.1"}, Searches: []string{"lan", "b"}, Options: []corev1.PodDNSConfigOption{{Name: "ndots", Value: new("2")}, {Name: "edns0"}},
		}), nil, dnsOf([]string{"10.96.0.10", "1.1.1.1"}, append(searched[:5:5], "b"), []string{"ndots:2", "edns0"}), ""},
		{"no cluster DNS", policy(corev1.DNSClusterFirst, false, nil), func(r *Resolver) { r.ClusterDNS = nil }, host, ""},
		{"no domain", policy(corev1.DNSClusterFirst, false, nil), func(r *Resolver) { r.ClusterDomain = "" },
			dnsOf([]string{"10.96.0.10"}, []string{"example.com", "lan", "cluster.local"}, []string{"ndots:5"}), ""},
		{"no file", policy(corev1.DNSDefault, false, nil), func(r *Resolver) { r.ResolvConf = "" }, dnsOf([]string{"127.0.0.1", "::1"}, []string{"."}, nil), ""},
		{"no file and no address", policy(corev1.DNSDefault, false, nil), func(r *Resolver) { r.ResolvConf, r.NodeIPs = "", nil }, dnsOf([]string{"127.0.0.1"}, []string{"."}, nil), ""},
		{"too many servers", policy(corev1.DNSNone, false, &corev1.PodDNSConfig{Nameservers: []string{"1", "2", "3", "4"}}), nil, kubelet.DNS{Servers: []string{"1", "2", "3"}, Searches: []string{}},
			"Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: 1 2 3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := &Resolver{
				ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local", ResolvConf: file, NodeIPs: []string{"192.0.2.1", "fd00::1"},
			}
			if test.change != nil {
				test.change(r)
			}
			got, warnings, err := r.Config(test.pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warning, strings.Join(warnings, "; ")); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResolver_SearchLimits(t *testing.T) {
	numbered := func(count, length int) (domains []string) {
		for i := range count {
			domains = append(domains, fmt.Sprintf("%0*d", length, i))
		}
		return domains
	}
	long := strings.Repeat("x", 254)
	for _, test := range []struct {
		name     string
		searches []string
		want     int
		first    string
	}{
		{"as many as there may be", numbered(32, 3), 32, "000"},
		{"one too many", numbered(33, 3), 32, "000"},
		{"a domain that is too long", append([]string{long}, numbered(3, 3)...), 3, "000"},
		{"a line that is too long", numbered(9, 250), 8, numbered(1, 250)[0]},
	} {
		dns, warnings, err := (&Resolver{}).Config(testPod("web", func(s *corev1.PodSpec) {
			s.DNSPolicy, s.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Searches: test.searches}
		}))
		if err != nil || len(dns.Searches) != test.want || test.want > 0 && dns.Searches[0] != test.first {
			t.Errorf("%s: got %d domains, %v, want %d", test.name, len(dns.Searches), err, test.want)
		}
		if cutShort := len(test.searches) > test.want; cutShort != (len(warnings) == 1) {
			t.Errorf("%s: warned of %q", test.name, warnings)
		}
	}
}

func TestResolver_BadFile(t *testing.T) {
	if _, _, err := (&Resolver{ResolvConf: filepath.Join(t.TempDir(), "no")}).Config(testPod("web", nil)); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := parseResolvConf(strings.NewReader("nameserver\n")); err == nil {
		t.Error("a name server without an address was taken")
	}
}

func FuzzParseResolvConf(f *testing.F) {
	f.Add("nameserver 1.2.3.4\nsearch a b.\noptions ndots:5")
	f.Add("nameserver\n# x\nsearch")
	f.Fuzz(func(t *testing.T, file string) {
		dns, err := parseResolvConf(strings.NewReader(file))
		if err == nil && len(dns.Servers) > strings.Count(file, "nameserver") {
			t.Errorf("%q has %d name servers", file, len(dns.Servers))
		}
	})
}

func TestFiles(t *testing.T) {
	root := t.TempDir()
	f := &Files{RootDir: root, Resolver: Resolver{ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local"}}
	pod := testPod("web", func(s *corev1.PodSpec) { s.Subdomain = "db" })
	container := &corev1.Container{Name: "c"}
	if mounts, err := f.Mounts(pod, container); err != nil || len(mounts) > 0 {
		t.Errorf("without an address: %v, %v", mounts, err)
	}
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.7"}}
	mounts, err := f.Mounts(pod, container)
	want := []kubelet.Mount{{HostPath: filepath.Join(root, "pods/1-2/etc-hosts"), ContainerPath: "/etc/hosts", SELinuxRelabel: true}}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, mounts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	content, err := os.ReadFile(want[0].HostPath)
	if err != nil || !strings.Contains(string(content), "10.244.0.7\tweb.db.ns.svc.cluster.local\tweb\n") {
		t.Errorf("got %v, %s", err, content)
	}
	if host, err := f.Hostname(pod); err != nil || host != "web" {
		t.Errorf("the pod is called %q, %v", host, err)
	}
	if dns, warnings, err := f.DNS(pod); err != nil || len(warnings) > 0 || dns.Servers[0] != "10.96.0.10" {
		t.Errorf("got %+v, %q, %v", dns, warnings, err)
	}
	f.Resolver.ClusterDNS = nil
	pod.UID = "1234"
	for _, test := range []struct {
		policy      corev1.DNSPolicy
		hostNetwork bool
		warns       bool
	}{
		{corev1.DNSClusterFirst, false, true}, {corev1.DNSClusterFirst, true, false}, {corev1.DNSClusterFirstWithHostNet, true, true},
		{corev1.DNSDefault, false, false}, {corev1.DNSNone, false, false},
	} {
		pod.Spec.DNSPolicy, pod.Spec.HostNetwork = test.policy, test.hostNetwork
		var want []kubelet.Warning
		if test.warns {
			want = []kubelet.Warning{{Reason: "MissingClusterDNS", Message: fmt.Sprintf("pod: \"web_%s(1234)\". kubelet does not have ClusterDNS IP configured"+
				" and cannot create Pod using \"ClusterFirst\" policy. Falling back to \"Default\" policy.", pod.Namespace)}}
		}
		_, warnings, err := f.DNS(pod)
		if diff := cmp.Diff(want, warnings); err != nil || diff != "" {
			t.Errorf("policy %s, host network %v: %v (-want +got):\n%s", test.policy, test.hostNetwork, err, diff)
		}
	}
}
