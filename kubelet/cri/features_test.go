package cri

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet"
)

// What a pod asks for is what its processes find.
func TestFeatures(t *testing.T) {
	n := startNode(t, nil)
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "greeting"), []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	demo, err := n.images.inspect(n.context(), &runtimeapi.ImageSpec{Image: "demo:1"})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		spec    func(*corev1.PodSpec)
		sandbox func(*kubelet.SandboxOptions)
		options func(*kubelet.ContainerOptions)
		command []string
		code    int
		want    string // a part of what it prints
	}{
		{name: "user", spec: func(p *corev1.PodSpec) {
			p.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), RunAsGroup: new(int64(2000)), FSGroup: new(int64(3000))}
		}, command: []string{"cat", "/proc/self/status"}, want: "Uid:\t1000\t1000\t1000\t1000\nGid:\t2000\t2000\t2000\t2000"},
		{name: "groups", spec: func(p *corev1.PodSpec) {
			p.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000)), FSGroup: new(int64(3000)), SupplementalGroups: []int64{4000}}
		}, command: []string{"cat", "/proc/self/status"}, want: "Groups:\t1000 3000 4000"},
		{name: "environment", options: func(o *kubelet.ContainerOptions) { o.Env = []kubelet.EnvVar{{Name: "WHO", Value: "a b=c"}} }, command: []string{"env"}, want: "WHO=a b=c\n"},
		{name: "mount", options: func(o *kubelet.ContainerOptions) {
			o.Mounts = []kubelet.Mount{{HostPath: dir, ContainerPath: "/given", ReadOnly: true}}
		}, command: []string{"cat", "/given/greeting"}, want: "hello"},
		{name: "read-only mount", options: func(o *kubelet.ContainerOptions) {
			o.Mounts = []kubelet.Mount{{HostPath: dir, ContainerPath: "/given", ReadOnly: true}}
		}, command: []string{"write", "/given/greeting", "x"}, code: 1, want: "read-only file system"},
		{name: "read-only root", spec: func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true)}
		}, command: []string{"write", "/new", "x"}, code: 1, want: "read-only file system"},
		{name: "image volume", options: func(o *kubelet.ContainerOptions) {
			o.Mounts = []kubelet.Mount{{Image: demo.Id, ContainerPath: "/image", ReadOnly: true}}
		}, command: []string{"ls", "/image"}, want: "bin"},
		{name: "device", options: func(o *kubelet.ContainerOptions) {
			o.Devices = []kubelet.Device{{HostPath: "/dev/null", ContainerPath: "/dev/mine", Permissions: "rwm"}}
		}, command: []string{"ls", "/dev"}, want: "mine"},
		{name: "no capabilities", spec: func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_ADMIN"}}}
		}, command: []string{"cat", "/proc/self/status"}, want: "CapEff:\t0000000000001000"},
		{name: "no new privileges", spec: func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}
		}, command: []string{"cat", "/proc/self/status"}, want: "NoNewPrivs:\t1"},
		{name: "OOM score", spec: func(p *corev1.PodSpec) {
			p.Containers[0].Resources.Requests = corev1.ResourceList{"memory": resource.MustParse("2Gi")}
		}, command: []string{"cat", "/proc/self/oom_score_adj"}, want: "750"},
		{name: "shared processes", spec: func(p *corev1.PodSpec) { p.ShareProcessNamespace = new(true) }, command: []string{"cat", "/proc/1/comm"}, want: "pause"},
		{name: "own processes", command: []string{"cat", "/proc/1/comm"}, want: "demo"},
		{name: "host network", spec: func(p *corev1.PodSpec) { p.HostNetwork = true }, command: []string{"cat", "/proc/net/dev"}, want: "cni0"},
		{name: "sysctl", spec: func(p *corev1.PodSpec) {
			p.SecurityContext.Sysctls = []corev1.Sysctl{{Name: "net.ipv4.ip_unprivileged_port_start", Value: "7"}}
		}, command: []string{"cat", "/proc/sys/net/ipv4/ip_unprivileged_port_start"}, want: "7"},
		{name: "DNS", sandbox: func(o *kubelet.SandboxOptions) {
			o.DNS = &kubelet.DNS{Servers: []string{"10.96.0.10"}, Searches: []string{"default.svc.cluster.local"}, Options: []string{"ndots:5"}}
		}, command: []string{"cat", "/etc/resolv.conf"}, want: "search default.svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:5"},
		{name: "users of its own", sandbox: func(o *kubelet.SandboxOptions) { o.UserNamespace = &kubelet.IDRange{First: 131072, Length: 65536} },
			command: []string{"cat", "/proc/self/uid_map"}, want: "0     131072      65536"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := newPod("features", []string{"sleep", "1000"})
			if test.spec != nil {
				test.spec(&pod.Spec)
			}
			around := sandboxOptions(pod)
			if test.sandbox != nil {
				test.sandbox(&around)
			}
			sandbox, err := n.RunSandbox(n.context(), pod, around)
			if err != nil {
				t.Fatal(err)
			}
			if !sandbox.Ready || pod.Spec.HostNetwork != (len(sandbox.IPs) == 0) {
				t.Errorf("the sandbox is %+v", sandbox)
			}
			c := &pod.Spec.Containers[0]
			options := kubelet.ContainerOptions{ImageID: demo.Id, Args: c.Args, Sandbox: around}
			if test.options != nil {
				test.options(&options)
			}
			id, err := n.CreateContainer(n.context(), pod, c, options)
			if err == nil {
				err = n.StartContainer(n.context(), id)
			}
			if err != nil {
				t.Fatal(err)
			}
			output, code, err := n.Exec(n.context(), id, append([]string{"demo"}, test.command...), 0, 0)
			if err != nil || code != test.code || !strings.Contains(string(output), test.want) {
				t.Errorf("%v printed %q, exited with %d, %v", test.command, output, code, err)
			}
			if err := n.RemovePod(n.context(), pod.UID); err != nil {
				t.Error(err)
			}
		})
	}
}

// A container is given other resources while it runs.
func TestResize(t *testing.T) {
	n := startNode(t, nil)
	pod := newPod("grows", []string{"sleep", "1000"})
	c := &pod.Spec.Containers[0]
	c.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("64Mi"), "cpu": resource.MustParse("1")}
	id := n.run(pod)[0]
	c.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("128Mi"), "cpu": resource.MustParse("500m")}
	if err := n.ResizeContainer(n.context(), pod, c, id); err != nil {
		t.Fatal(err)
	}
	_, containers, err := n.Pod(n.context(), pod.UID)
	if err != nil {
		t.Fatal(err)
	}
	if got := containers[0].Resources.Limits; got.Memory().Value() != 128<<20 || got.Cpu().MilliValue() != 500 {
		t.Errorf("its limits are %v", got)
	}
}

// An ephemeral container sees the processes of the container it was made for.
func TestTarget(t *testing.T) {
	n := startNode(t, nil)
	pod := newPod("target", []string{"sleep", "1000"})
	target := n.run(pod)[0]
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "demo:2"}}}
	c := (*corev1.Container)(&pod.Spec.EphemeralContainers[0].EphemeralContainerCommon)
	image, err := n.EnsureImage(n.context(), kubelet.ImageRequest{Pod: pod, Container: c})
	if err != nil {
		t.Fatal(err)
	}
	id, err := n.CreateContainer(n.context(), pod, c, kubelet.ContainerOptions{ImageID: image.ID, Args: []string{"sleep", "999"}, Target: target})
	if err == nil {
		err = n.StartContainer(n.context(), id)
	}
	if err != nil {
		t.Fatal(err)
	}
	output, _, err := n.Exec(n.context(), id, []string{"demo", "cat", "/proc/1/cmdline"}, 0, 0)
	if err != nil || !strings.Contains(string(output), "1000") {
		t.Errorf("process 1 is %q, %v", output, err)
	}
}
