package machine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// written is a machine in a directory.
func written(t *testing.T, files map[string]string) Config {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Config{RootDir: root, root: root}
}

func texts(list corev1.ResourceList) map[string]string {
	found := map[string]string{}
	for name, quantity := range list {
		found[string(name)] = quantity.String()
	}
	return found
}

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

func TestCapacity(t *testing.T) {
	config := written(t, map[string]string{
		"sys/devices/system/cpu/online": "0-1,4\n",
		"proc/meminfo":                  "MemTotal:       24684096 kB\nSwapTotal: 1024 kB\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":    "3\n",
		"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
	})
	capacity, err := Capacity(config)
	if err != nil {
		t.Fatal(err)
	}
	got := texts(capacity)
	if disk := capacity[corev1.ResourceEphemeralStorage]; disk.Value() < 1<<20 || disk.Format != resource.BinarySI {
		t.Errorf("ephemeral-storage: %v", disk.String())
	}
	delete(got, "ephemeral-storage")
	if diff := cmp.Diff(map[string]string{"cpu": "3", "memory": "24684096Ki", "pods": "110", "hugepages-2Mi": "6Mi", "hugepages-1Gi": "0"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	config.PodsPerCore = 10
	if capacity, err = Capacity(config); err != nil || capacity.Pods().Value() != 30 {
		t.Errorf("%v pods on three cores: %v", capacity.Pods(), err)
	}
	if _, err := Capacity(Config{RootDir: "/", root: t.TempDir()}); err == nil {
		t.Error("an empty machine has a capacity")
	}
	if capacity, err = Capacity(Config{RootDir: t.TempDir()}); err != nil || capacity.Cpu().IsZero() || capacity.Memory().IsZero() {
		t.Errorf("this machine: %v, %v", capacity, err)
	}
}

func TestAllocatable(t *testing.T) {
	capacity := list("cpu", "4", "memory", "1Gi", "pods", "110", "hugepages-2Mi", "100Mi", "ephemeral-storage", "10Gi")
	reserved := Reserved{System: list("cpu", "500m", "memory", "100Mi"), Kube: list("cpu", "500m", "pid", "1000"), Eviction: list("memory", "124Mi", "ephemeral-storage", "11Gi")}
	want := map[string]string{"cpu": "3", "memory": "700Mi", "pods": "110", "hugepages-2Mi": "100Mi", "ephemeral-storage": "0"}
	if diff := cmp.Diff(want, texts(Allocatable(capacity, reserved))); diff != "" {
		t.Errorf("allocatable (-want +got):\n%s", diff)
	}
	enforced := texts(Enforced(capacity, reserved))
	if enforced["memory"] != "824Mi" || enforced["ephemeral-storage"] != "10Gi" || enforced["pid"] == "" {
		t.Errorf("enforced: %v", enforced)
	}
	if _, ok := capacity[ResourcePID]; ok {
		t.Error("the capacity was changed")
	}
	err := Check(capacity, reserved)
	if err == nil || err.Error() != `invalid Node Allocatable configuration. Resource "ephemeral-storage" has a reservation of 11Gi but capacity of 10Gi. Expected capacity >= reservation.` {
		t.Errorf("too much: %v", err)
	}
	if err := Check(capacity, Reserved{System: reserved.System}); err != nil {
		t.Error(err)
	}
}

func TestParseReserved(t *testing.T) {
	got, err := ParseReserved(map[string]string{"cpu": "200m", "memory": "1Gi", "pid": "100", "ephemeral-storage": "2Gi"})
	if diff := cmp.Diff(map[string]string{"cpu": "200m", "memory": "1Gi", "pid": "100", "ephemeral-storage": "2Gi"}, texts(got)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for flag, want := range map[string]string{
		"gpu=1":      `cannot reserve "gpu" resource`,
		"cpu=-1":     `resource quantity for "cpu" cannot be negative: -1`,
		"memory=few": `failed to parse quantity "few" for "memory" resource`,
	} {
		name, value, _ := strings.Cut(flag, "=")
		if _, err := ParseReserved(map[string]string{name: value}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

func TestSystem(t *testing.T) {
	info := System(written(t, map[string]string{
		"etc/machine-id": "abc\n", "sys/class/dmi/id/product_uuid": "UUID\n", "proc/sys/kernel/random/boot_id": "boot\n",
		"proc/sys/kernel/osrelease": "6.1.0\n", "etc/os-release": "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"proc/meminfo": "SwapTotal: 1024 kB\n",
	}))
	if info.MachineID != "abc" || info.SystemUUID != "UUID" || info.BootID != "boot" || info.KernelVersion != "6.1.0" || info.OSImage != "Debian GNU/Linux 12 (bookworm)" || info.Swap == nil || *info.Swap.Capacity != 1<<20 {
		t.Errorf("got %+v", info)
	}
	bare := System(written(t, map[string]string{"etc/machine-id": "abc\n"}))
	if bare.SystemUUID != "abc" || bare.OSImage != "Linux" || bare.Swap != nil {
		t.Errorf("a bare machine: %+v", bare)
	}
}

func TestPids(t *testing.T) {
	maximum, running, err := written(t, map[string]string{"proc/sys/kernel/pid_max": "32768\n", "proc/sys/kernel/threads-max": "1000\n", "proc/loadavg": "0.20 0.18 0.12 1/80 11206\n"}).pids()
	if maximum != 1000 || running != 80 || err != nil {
		t.Errorf("%d of %d, %v", running, maximum, err)
	}
	if maximum, running, err = Pids(); err != nil || running < 1 || running >= maximum {
		t.Errorf("this machine: %d of %d, %v", running, maximum, err)
	}
}

func TestStat(t *testing.T) {
	a, err := Stat(t.TempDir())
	if err != nil || a.Capacity == 0 || a.Available > a.Capacity || a.Used > a.Capacity || a.Device == 0 {
		t.Errorf("%+v, %v", a, err)
	}
	if b, err := Stat("/proc"); err != nil || b.Device == a.Device {
		t.Errorf("/proc: %+v, %v", b, err)
	}
	if _, err := Stat(filepath.Join(t.TempDir(), "not", "there")); err == nil {
		t.Error("there is a file system in nothing")
	}
}
