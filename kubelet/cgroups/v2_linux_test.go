package cgroups

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// unified is a directory in the place of cgroup v2. Its groups have no files until they are written to with plant.
func unified(t *testing.T, config Config, controllers string) (*Tree, string) {
	t.Helper()
	root := t.TempDir()
	plant(t, root, controllers)
	tree, err := newTree(config, []hierarchy{{dir: root, unified: true}})
	if err != nil {
		t.Fatal(err)
	}
	return tree, root
}

// plant gives a directory the files that the kernel makes.
func plant(t *testing.T, dir, controllers string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"cgroup.controllers": controllers, "cgroup.subtree_control": "", "cgroup.procs": "", "cgroup.kill": ""}
	for controller, names := range map[string][]string{"cpu": {"cpu.weight", "cpu.max"}, "memory": {"memory.max"}, "pids": {"pids.max"}, "hugetlb": {"hugetlb.2MB.max", "hugetlb.1GB.max"}} {
		if strings.Contains(controllers, controller) {
			for _, name := range names {
				files[name] = ""
			}
		}
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func contents(t *testing.T, dir string, files ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		found[file] = string(content)
	}
	return found
}

func TestV2_Limits(t *testing.T) {
	const controllers = "cpu memory pids hugetlb"
	tree, root := unified(t, Config{Root: "vigil/node", PodPidsLimit: 50}, controllers)
	if tree.Version() != 2 {
		t.Fatalf("version %d", tree.Version())
	}
	for _, group := range []string{"vigil", "vigil/node", "vigil/node/kubepods", "vigil/node/kubepods/burstable", "vigil/node/kubepods/besteffort"} {
		plant(t, filepath.Join(root, group), controllers)
	}
	if err := tree.Setup(list("cpu", "4", "memory", "1Gi", "pid", "2000")); err != nil {
		t.Fatal(err)
	}
	got := contents(t, filepath.Join(root, "vigil/node/kubepods"), "cpu.weight", "memory.max", "pids.max", "cpu.max")
	if diff := cmp.Diff(map[string]string{"cpu.weight": "157", "memory.max": "1073741824", "pids.max": "2000", "cpu.max": ""}, got); diff != "" {
		t.Errorf("kubepods (-want +got):\n%s", diff)
	}
	if got := contents(t, root, "cgroup.subtree_control")["cgroup.subtree_control"]; got != "+hugetlb" { // a file keeps the last write
		t.Errorf("the root gives %q", got)
	}
	dir := filepath.Join(root, "vigil/node/kubepods/burstable/podb")
	plant(t, dir, controllers)
	p := pod("b", list("cpu", "250m", "hugepages-2Mi", "8Mi"), list("cpu", "1500m", "memory", "32Mi", "hugepages-2Mi", "8Mi"))
	parent, err := tree.Ensure(p)
	if err != nil || parent != "/vigil/node/kubepods/burstable/podb" {
		t.Fatalf("parent %s: %v", parent, err)
	}
	want := map[string]string{"cpu.weight": "10", "cpu.max": "150000 100000", "memory.max": "33554432", "pids.max": "50", "hugetlb.2MB.max": "8388608", "hugetlb.1GB.max": "0"}
	if diff := cmp.Diff(want, contents(t, dir, "cpu.weight", "cpu.max", "memory.max", "pids.max", "hugetlb.2MB.max", "hugetlb.1GB.max")); diff != "" {
		t.Errorf("the pod (-want +got):\n%s", diff)
	}
	if got := contents(t, filepath.Dir(dir), "cpu.weight")["cpu.weight"]; got != "10" {
		t.Errorf("burstable weighs %s", got)
	}
}

func TestV2_Usage(t *testing.T) {
	tree, root := unified(t, Config{}, "cpu memory pids")
	for file, content := range map[string]string{
		"cpu.stat":       "usage_usec 2500000\nuser_usec 1\nnr_periods 10\nnr_throttled 3\nthrottled_usec 7\n",
		"memory.current": "1000000\n", "memory.max": "max\n", "memory.stat": "anon 300000\nfile 500000\ninactive_file 400000\npgfault 12\npgmajfault 2\n",
		"pids.current": "5\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, "g"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "g", file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u, err := tree.Usage("/g")
	if err != nil {
		t.Fatal(err)
	}
	if u.CPU.Milliseconds() != 2500 || u.WorkingSet != 600000 || u.RSS != 300000 || u.Pids != 5 || u.MajorPageFaults != 2 || u.MemoryLimit != 0 || u.ThrottledPeriods != 3 || u.Throttled.Microseconds() != 7 {
		t.Errorf("got %+v", u)
	}
}

func TestNew_WithoutMemory(t *testing.T) {
	if _, err := newTree(Config{}, []hierarchy{{dir: t.TempDir(), controllers: []string{"cpu"}}}); err == nil {
		t.Error("made a tree")
	}
}

func TestParseMounts(t *testing.T) {
	found, err := parseMounts(strings.NewReader(`22 1 0:20 / /proc rw,nosuid - proc proc rw
30 22 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/a\040b rw - cgroup cgroup rw,xattr,release_agent=/x,name=systemd
33 30 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
34 30 0:27 / /elsewhere rw - cgroup cgroup rw,cpu,cpuacct
`))
	want := []hierarchy{
		{dir: "/sys/fs/cgroup/cpu,cpuacct", controllers: []string{"cpu", "cpuacct"}},
		{dir: "/sys/fs/cgroup/a b", controllers: []string{"name=systemd"}},
		{dir: "/sys/fs/cgroup/unified", unified: true},
	}
	if diff := cmp.Diff(want, found, cmp.AllowUnexported(hierarchy{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := parseMounts(strings.NewReader("22 1 0:20 / /proc rw - proc proc rw\n")); err == nil {
		t.Error("a machine without cgroups has some")
	}
}

func TestConversions(t *testing.T) {
	for milli, want := range map[int64]int64{0: 2, 1: 2, 100: 102, 1000: 1024, 1_000_000: 262144} {
		if got := Shares(milli); got != want {
			t.Errorf("%dm: %d shares, want %d", milli, got, want)
		}
	}
	for shares, want := range map[int64]int64{0: 1, 2: 1, 102: 4, 1024: 39, 262144: 10000} {
		if got := Weight(shares); got != want {
			t.Errorf("%d shares: weight %d, want %d", shares, got, want)
		}
	}
	for milli, want := range map[int64]int64{0: -1, 1: 1000, 10: 1000, 250: 25000, 4000: 400000} {
		if got := Quota(milli, 100000); got != want {
			t.Errorf("%dm: quota %d, want %d", milli, got, want)
		}
	}
}

func TestLimits(t *testing.T) {
	tree := &Tree{config: Config{CPUCFSQuotaPeriod: defaultPeriod}}
	withInit := pod("init", list("cpu", "100m"), list("cpu", "1", "memory", "1Mi"))
	withInit.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Limits: list("cpu", "2")}}}
	whole := pod("whole", nil, nil)
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: list("cpu", "1", "memory", "2Mi"), Limits: list("cpu", "2", "memory", "2Mi")}
	overhead := pod("overhead", list("cpu", "1", "memory", "1Mi"), list("cpu", "1", "memory", "1Mi"))
	overhead.Spec.Overhead = list("cpu", "250m", "memory", "1Mi")
	for _, test := range []struct {
		pod  *corev1.Pod
		want Limits
	}{
		{pod("besteffort", nil, nil), Limits{CPUShares: 2, CPUQuota: -1, Memory: -1}},
		{pod("burstable", list("cpu", "100m"), nil), Limits{CPUShares: 102, CPUQuota: -1, Memory: -1}},
		{pod("memory", list("memory", "1Mi"), list("memory", "2Mi")), Limits{CPUShares: 2, CPUQuota: -1, Memory: 2 << 20}},
		{withInit, Limits{CPUShares: 102, CPUQuota: 200000, Memory: -1}},
		{whole, Limits{CPUShares: 1024, CPUQuota: 200000, Memory: 2 << 20}},
		{overhead, Limits{CPUShares: 1280, CPUQuota: 125000, Memory: 2 << 20}},
	} {
		test.want.CPUPeriod, test.want.Pids, test.want.Hugepages = 100000, -1, map[string]int64{}
		if diff := cmp.Diff(test.want, tree.limitsOf(test.pod)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.pod.Name, diff)
		}
	}
	tree.config.NoCPUCFSQuota = true
	if got := tree.limitsOf(overhead).CPUQuota; got != -1 {
		t.Errorf("quota %d although cpu limits are not to be enforced", got)
	}
}
