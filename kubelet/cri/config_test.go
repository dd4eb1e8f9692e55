package cri

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet"
)

// offline is a Runtime that no request reaches, whose image 1 runs as root.
func offline(t *testing.T) *Runtime {
	t.Helper()
	r, err := New(Config{Endpoint: "unix:///nowhere.sock", RootDir: t.TempDir(), LogDir: "/logs", MemoryCapacity: 8 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	r.images.users["1"] = imageUser{uid: new(int64)}
	r.cgroups = cgroupSupport{}
	return r
}

func TestSandboxConfig(t *testing.T) {
	r := offline(t)
	plain := newPod("web", nil)
	plain.UID, plain.Annotations = "u1", map[string]string{"a": "b"}
	want := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "u1", Attempt: 2},
		Hostname:     "web-0",
		LogDirectory: "/logs/default_web_u1",
		DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"10.96.0.10"}, Searches: []string{"svc"}, Options: []string{"ndots:5"}},
		Labels:       map[string]string{"app": "web", podNameLabel: "web", podNamespaceLabel: "default", podUIDLabel: "u1"},
		Annotations:  map[string]string{"a": "b"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: "/kubepods/pod1",
			Resources:    &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000},
			Overhead:     &runtimeapi.LinuxContainerResources{},
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions:   &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
				Seccomp:            &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
				SupplementalGroups: []int64{7},
			},
		},
	}
	tests := []struct {
		name   string
		pod    func(*corev1.PodSpec)
		change func(*runtimeapi.PodSandboxConfig)
	}{
		{name: "plain"},
		{name: "host namespaces", pod: func(p *corev1.PodSpec) { p.HostNetwork, p.HostPID, p.HostIPC = true, true, true }, change: func(c *runtimeapi.PodSandboxConfig) {
			c.Hostname = ""
			c.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_NODE, Ipc: runtimeapi.NamespaceMode_NODE}
		}},
		{name: "shared process namespace", pod: func(p *corev1.PodSpec) { p.ShareProcessNamespace = new(true) }, change: func(c *runtimeapi.PodSandboxConfig) {
			c.Linux.SecurityContext.NamespaceOptions.Pid = runtimeapi.NamespaceMode_POD
		}},
		{name: "a privileged container", pod: func(p *corev1.PodSpec) {
			p.InitContainers = []corev1.Container{{Name: "i", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}
		}, change: func(c *runtimeapi.PodSandboxConfig) { c.Linux.SecurityContext.Privileged = true }},
		{name: "security context", pod: func(p *corev1.PodSpec) {
			p.SecurityContext = &corev1.PodSecurityContext{
				RunAsUser: new(int64(1)), RunAsGroup: new(int64(2)), FSGroup: new(int64(3)), SupplementalGroups: []int64{4, 5},
				SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicyStrict), SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"},
				Sysctls: []corev1.Sysctl{{Name: "net.ipv4.tcp_syncookies", Value: "0"}},
			}
		}, change: func(c *runtimeapi.PodSandboxConfig) {
			sc := c.Linux.SecurityContext
			sc.RunAsUser, sc.RunAsGroup = &runtimeapi.Int64Value{Value: 1}, &runtimeapi.Int64Value{Value: 2}
			sc.SupplementalGroups, sc.SupplementalGroupsPolicy = []int64{3, 7, 4, 5}, runtimeapi.SupplementalGroupsPolicy_Strict
			sc.SelinuxOptions = &runtimeapi.SELinuxOption{Level: "s0"}
			c.Linux.Sysctls = map[string]string{"net.ipv4.tcp_syncookies": "0"}
		}},
		{name: "resources and overhead", pod: func(p *corev1.PodSpec) {
			p.Containers[0].Resources = corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("500m")}, Limits: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")},
			}
			p.Overhead = corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("100Mi")}
		}, change: func(c *runtimeapi.PodSandboxConfig) {
			c.Linux.Resources = &runtimeapi.LinuxContainerResources{CpuShares: 512, CpuPeriod: 100000, CpuQuota: 100000, MemoryLimitInBytes: 1 << 30}
			c.Linux.Overhead = &runtimeapi.LinuxContainerResources{CpuShares: 256, CpuPeriod: 100000, CpuQuota: 25000, MemoryLimitInBytes: 100 << 20}
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod, want := plain.DeepCopy(), proto.Clone(want).(*runtimeapi.PodSandboxConfig)
			if test.pod != nil {
				test.pod(&pod.Spec)
			}
			if test.change != nil {
				test.change(want)
			}
			got, err := r.sandboxConfig(pod, kubelet.SandboxOptions{
				CgroupParent: "/kubepods/pod1", Hostname: "web-0", Groups: []int64{7},
				DNS: &kubelet.DNS{Servers: []string{"10.96.0.10"}, Searches: []string{"svc"}, Options: []string{"ndots:5"}},
			}, 2)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestContainerConfig(t *testing.T) {
	r := offline(t)
	pod := newPod("web", []string{"serve"})
	c := &pod.Spec.Containers[0]
	c.WorkingDir, c.Stdin, c.StdinOnce, c.TTY = "/work", true, true, true
	c.Ports = []corev1.ContainerPort{{ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
	c.Lifecycle = &corev1.Lifecycle{StopSignal: new(corev1.SIGUSR1), PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
	config, err := r.containerConfig(t.Context(), pod, c, kubelet.ContainerOptions{
		Attempt: 3, ImageID: "1", Command: []string{"/bin/demo"}, Args: []string{"serve"}, Env: []kubelet.EnvVar{{Name: "A", Value: "b"}},
		Mounts: []kubelet.Mount{
			{HostPath: "/var/data", ContainerPath: "/data", ReadOnly: true, RecursiveReadOnly: true},
			{HostPath: "/var/shared", ContainerPath: "/shared", Propagation: corev1.MountPropagationBidirectional},
			{Image: "sha256:2", ContainerPath: "/image", ImageSubPath: "lib", ReadOnly: true},
		},
		Devices: []kubelet.Device{{HostPath: "/dev/fuse", ContainerPath: "/dev/fuse", Permissions: "rw"}}, CDIDevices: []string{"vendor.com/gpu=0"},
	}, kubelet.SandboxOptions{Handler: "kata", UserNamespace: &kubelet.IDRange{First: 65536, Length: 65536}})
	if err != nil {
		t.Fatal(err)
	}
	ids := []*runtimeapi.IDMapping{{HostId: 65536, Length: 65536}}
	want := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "c0", Attempt: 3},
		Image:    &runtimeapi.ImageSpec{Image: "1", UserSpecifiedImage: "demo:1", RuntimeHandler: "kata"},
		Command:  []string{"/bin/demo"}, Args: []string{"serve"}, WorkingDir: "/work", Envs: []*runtimeapi.KeyValue{{Key: "A", Value: []byte("b")}},
		Mounts: []*runtimeapi.Mount{
			{HostPath: "/var/data", ContainerPath: "/data", Readonly: true, RecursiveReadOnly: true},
			{HostPath: "/var/shared", ContainerPath: "/shared", Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL},
			{Image: &runtimeapi.ImageSpec{Image: "sha256:2"}, ImageSubPath: "lib", ContainerPath: "/image", Readonly: true},
		},
		Devices:    []*runtimeapi.Device{{HostPath: "/dev/fuse", ContainerPath: "/dev/fuse", Permissions: "rw"}},
		CDIDevices: []*runtimeapi.CDIDevice{{Name: "vendor.com/gpu=0"}},
		Labels:     map[string]string{podNameLabel: "web", podNamespaceLabel: "default", podUIDLabel: string(pod.UID), containerNameLabel: "c0"},
		Annotations: map[string]string{
			hashAnnotation: config.Annotations[hashAnnotation], restartCountAnnotation: "3", messagePathAnnotation: "/dev/termination-log",
			messagePolicyAnnotation: "File", podTerminationGraceAnnotation: "1", preStopAnnotation: `{"sleep":{"seconds":1}}`,
			portsAnnotation: `[{"containerPort":80,"protocol":"TCP"}]`, typeAnnotation: "container", imageAnnotation: "demo:1",
		},
		LogPath: "c0/3.log", Stdin: true, StdinOnce: true, Tty: true, StopSignal: runtimeapi.Signal_SIGNAL_SIGUSR1,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 1000},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				RunAsUser: &runtimeapi.Int64Value{}, Seccomp: unconfined(), MaskedPaths: maskedPaths(), ReadonlyPaths: readonlyPaths(),
				NamespaceOptions: &runtimeapi.NamespaceOption{
					Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: &runtimeapi.UserNamespace{Uids: ids, Gids: ids},
				},
			},
		},
	}
	for _, m := range want.Mounts {
		m.UidMappings, m.GidMappings = ids, ids
	}
	if diff := cmp.Diff(want, config, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestContainerSecurity(t *testing.T) {
	r := offline(t)
	tests := []struct {
		name  string
		pod   *corev1.PodSecurityContext
		own   *corev1.SecurityContext
		user  imageUser
		check func(*runtimeapi.LinuxContainerSecurityContext) bool
		fails string
	}{
		{name: "the image's number", user: imageUser{uid: new(int64(5))}, check: func(s *runtimeapi.LinuxContainerSecurityContext) bool {
			return s.RunAsUser.GetValue() == 5 && s.RunAsUsername == ""
		}},
		{name: "the image's name", user: imageUser{name: "app"}, check: func(s *runtimeapi.LinuxContainerSecurityContext) bool {
			return s.RunAsUser == nil && s.RunAsUsername == "app"
		}},
		{name: "the pod's user", pod: &corev1.PodSecurityContext{RunAsUser: new(int64(1)), RunAsGroup: new(int64(2))}, user: imageUser{name: "app"}, check: func(s *runtimeapi.LinuxContainerSecurityContext) bool {
			return s.RunAsUser.GetValue() == 1 && s.RunAsGroup.GetValue() == 2 && s.RunAsUsername == ""
		}},
		{name: "the container's own", pod: &corev1.PodSecurityContext{RunAsUser: new(int64(1))}, own: &corev1.SecurityContext{RunAsUser: new(int64(3))}, check: func(s *runtimeapi.LinuxContainerSecurityContext) bool {
			return s.RunAsUser.GetValue() == 3
		}},
		{name: "privileged", own: &corev1.SecurityContext{Privileged: new(true), ReadOnlyRootFilesystem: new(true)}, check: func(s *runtimeapi.LinuxContainerSecurityContext) bool {
			return s.Privileged && s.ReadonlyRootfs && !s.NoNewPrivs
		}},
		{name: "no escalation", own: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}, check: func(s *runtimeapi.LinuxContainerSecurityContext) bool { return s.NoNewPrivs }},
		{name: "capabilities", own: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}, Drop: []corev1.Capability{"ALL"}}}, check: func(s *runtimeapi.LinuxContainerSecurityContext) bool {
			return s.Capabilities.AddCapabilities[0] == "NET_ADMIN" && s.Capabilities.DropCapabilities[0] == "ALL"
		}},
		{name: "unmasked /proc", own: &corev1.SecurityContext{ProcMount: new(corev1.UnmaskedProcMount)}, check: func(s *runtimeapi.LinuxContainerSecurityContext) bool {
			return len(s.MaskedPaths) == 0 && len(s.ReadonlyPaths) == 0
		}},
		{name: "local seccomp", pod: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: new("a/b.json")}}, check: func(s *runtimeapi.LinuxContainerSecurityContext) bool {
			return s.Seccomp.ProfileType == runtimeapi.SecurityProfile_Localhost && s.Seccomp.LocalhostRef == filepath.Join(r.config.RootDir, "seccomp/a/b.json")
		}},
		{name: "local seccomp without name", own: &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost}}, fails: "localhostProfile must be set if seccompProfile type is Localhost."},
		{name: "apparmor", own: &corev1.SecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("mine")}}, check: func(s *runtimeapi.LinuxContainerSecurityContext) bool {
			return s.Apparmor.LocalhostRef == "mine"
		}},
		{name: "a name that may be root's", own: &corev1.SecurityContext{RunAsNonRoot: new(true)}, user: imageUser{name: "app"},
			fails: "container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root (pod: \"web_default("},
		{name: "a number that is not", own: &corev1.SecurityContext{RunAsNonRoot: new(true)}, user: imageUser{uid: new(int64(5))}, check: func(s *runtimeapi.LinuxContainerSecurityContext) bool { return s.RunAsUser.Value == 5 }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := newPod("web", nil)
			if test.pod != nil {
				pod.Spec.SecurityContext = test.pod
			}
			c := &pod.Spec.Containers[0]
			c.SecurityContext = test.own
			err := verifyNonRoot(pod, c, test.user)
			var security *runtimeapi.LinuxContainerSecurityContext
			if err == nil {
				security, err = r.containerSecurity(pod, c, test.user, kubelet.ContainerOptions{}, kubelet.SandboxOptions{})
			}
			switch {
			case test.fails == "" && err != nil, test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)):
				t.Errorf("failed with %v", err)
			case err == nil && !test.check(security):
				t.Errorf("got %+v", security)
			}
		})
	}
	security, err := r.containerSecurity(newPod("web", nil), &corev1.Container{}, imageUser{}, kubelet.ContainerOptions{Target: "containerd://1"}, kubelet.SandboxOptions{})
	if err != nil || security.NamespaceOptions.Pid != runtimeapi.NamespaceMode_TARGET || security.NamespaceOptions.TargetId != "1" {
		t.Errorf("with a target: %+v, %v", security, err)
	}
}

// A container that is to be confined does not run unconfined where the runtime cannot filter system calls.
func TestContainerSecurity_NoSeccomp(t *testing.T) {
	const std, none = corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined
	for _, test := range []struct {
		name       string
		pod, own   corev1.SeccompProfileType
		byDefault  bool // --seccomp-default
		privileged bool
		fails      bool
	}{
		{name: "nothing said"},
		{name: "nothing said, default RuntimeDefault", byDefault: true, fails: true},
		{name: "unconfined", own: none, byDefault: true},
		{name: "of the container", own: std, fails: true},
		{name: "of the pod", pod: std, fails: true},
		{name: "of the pod, not the container", pod: std, own: none},
		{name: "of the container, not the pod", pod: none, own: std, fails: true},
		{name: "privileged", pod: std, privileged: true}, // nobody filters its calls
	} {
		for _, can := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, runtime can %t", test.name, can), func(t *testing.T) {
				r := &Runtime{config: Config{RootDir: "/root", SeccompDefault: test.byDefault}}
				r.noSeccomp.Store(!can)
				pod := newPod("web", nil)
				c := &pod.Spec.Containers[0]
				c.SecurityContext = &corev1.SecurityContext{Privileged: &test.privileged}
				if test.own != "" {
					c.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: test.own}
				}
				if test.pod != "" {
					pod.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: test.pod}}
				}
				security, err := r.containerSecurity(pod, c, imageUser{}, kubelet.ContainerOptions{}, kubelet.SandboxOptions{})
				if fails := test.fails && !can; (err != nil) != fails || fails && !errors.Is(err, errNoSeccomp) {
					t.Fatalf("got %v", err)
				}
				want := runtimeapi.SecurityProfile_Unconfined
				if can && (test.fails || test.privileged) {
					want = runtimeapi.SecurityProfile_RuntimeDefault
				}
				if err == nil && security.Seccomp.ProfileType != want {
					t.Errorf("the profile is %v", security.Seccomp.ProfileType)
				}
				if sandbox, err := r.sandboxSecurity(pod, kubelet.SandboxOptions{}); err != nil || (sandbox.Seccomp.ProfileType == runtimeapi.SecurityProfile_RuntimeDefault) != can {
					t.Errorf("of the sandbox: %v, %v", sandbox.GetSeccomp(), err)
				}
			})
		}
	}
}

func TestContainerResources(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		if memory != "" {
			l[corev1.ResourceMemory] = resource.MustParse(memory)
		}
		return l
	}
	tests := []struct {
		name             string
		requests, limits corev1.ResourceList
		support          cgroupSupport
		critical         bool
		want             *runtimeapi.LinuxContainerResources
	}{
		{name: "best effort", want: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 1000}},
		{name: "guaranteed", requests: list("1", "1Gi"), limits: list("1", "1Gi"),
			want: &runtimeapi.LinuxContainerResources{CpuShares: 1024, CpuPeriod: 100000, CpuQuota: 100000, MemoryLimitInBytes: 1 << 30, OomScoreAdj: -997}},
		{name: "a quarter of the memory", requests: list("100m", "2Gi"),
			want: &runtimeapi.LinuxContainerResources{CpuShares: 102, CpuPeriod: 100000, OomScoreAdj: 750}},
		{name: "nearly all of it", requests: list("", "8Gi"), want: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 3}},
		{name: "hardly any", requests: list("", "1"), want: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 999}},
		{name: "critical", requests: list("", "2Gi"), critical: true, want: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: -997}},
		{name: "a limit alone", limits: list("1m", ""), want: &runtimeapi.LinuxContainerResources{CpuShares: 2, CpuPeriod: 100000, CpuQuota: 1000, OomScoreAdj: 999}},
		{name: "more than there is", requests: list("1000", ""), want: &runtimeapi.LinuxContainerResources{CpuShares: 262144, CpuPeriod: 100000, OomScoreAdj: 999}},
		{name: "huge pages", limits: corev1.ResourceList{"hugepages-2Mi": resource.MustParse("4Mi"), "memory": resource.MustParse("1Gi")},
			support: cgroupSupport{hugepages: []string{"1GB", "2MB"}}, want: &runtimeapi.LinuxContainerResources{
				CpuShares: 2, CpuPeriod: 100000, MemoryLimitInBytes: 1 << 30, OomScoreAdj: 999,
				HugepageLimits: []*runtimeapi.HugepageLimit{{PageSize: "1GB"}, {PageSize: "2MB", Limit: 4 << 20}},
			}},
		{name: "version 2", support: cgroupSupport{unified: true, swap: true}, want: &runtimeapi.LinuxContainerResources{
			CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 1000, Unified: map[string]string{"memory.oom.group": "1", "memory.swap.max": "0"},
		}},
		{name: "version 1 with swap", limits: list("", "1Gi"), support: cgroupSupport{swap: true}, want: &runtimeapi.LinuxContainerResources{
			CpuShares: 2, CpuPeriod: 100000, OomScoreAdj: 999, MemoryLimitInBytes: 1 << 30, MemorySwapLimitInBytes: 1 << 30,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := offline(t)
			r.cgroups = test.support
			pod := newPod("web", nil)
			if test.critical {
				pod.Spec.PriorityClassName = "system-node-critical"
			}
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: test.requests, Limits: test.limits}
			if diff := cmp.Diff(test.want, r.containerResources(pod, &pod.Spec.Containers[0]), protocmp.Transform()); diff != "" {
				t.Error(diff)
			}
		})
	}
	pod := newPod("web", nil)
	pod.Spec.Containers[0].Resources.Requests = list("", "4Gi")
	pod.Spec.InitContainers = []corev1.Container{{Name: "side", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}, {Name: "init"}}
	if side, init := oomScore(pod, &pod.Spec.InitContainers[0], 8<<30), oomScore(pod, &pod.Spec.InitContainers[1], 8<<30); side != 500 || init != 999 {
		t.Errorf("scores of a sidecar and an init container: %d, %d", side, init)
	}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "small", Resources: corev1.ResourceRequirements{Requests: list("", "2Gi")}})
	if side := oomScore(pod, &pod.Spec.InitContainers[0], 8<<30); side != 750 {
		t.Errorf("score of a sidecar of two containers: %d, not that of the one that goes first", side)
	}
	pod.Spec.InitContainers, pod.Spec.Resources = nil, &corev1.ResourceRequirements{Requests: list("", "7Gi")}
	if one, two := oomScore(pod, &pod.Spec.Containers[0], 8<<30), oomScore(pod, &pod.Spec.Containers[1], 8<<30); one != 438 || two != 688 {
		t.Errorf("scores where the pod asks for 1 GiB more than its containers: %d, %d", one, two)
	}
}

// Upstream's value for the same container, so that either kubelet knows the other's.
func TestHashContainer(t *testing.T) {
	if got := hashContainer(&corev1.Container{Name: "test_container", Image: "foo/image:v1"}); got != 0x8e45cbd0 {
		t.Errorf("%#x", got)
	}
}
