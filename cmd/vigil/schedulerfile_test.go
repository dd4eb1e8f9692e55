package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"vigil/cluster"
)

const schedulerHead = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

func schedulerFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(file, []byte(schedulerHead+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSchedulerFile_Precedence: beside a file flags of leader election count, those that are deprecated upstream do not.
func TestSchedulerFile_Precedence(t *testing.T) {
	const text = `
clientConnection: {kubeconfig: /of/the/file, qps: 7, burst: 9}
leaderElection: {leaseDuration: 33s, renewDeadline: 22s, resourceName: mine}
enableProfiling: false
podInitialBackoffSeconds: 4
podMaxBackoffSeconds: 5
parallelism: 3
`
	for _, c := range []struct {
		name string
		text string
		args []string
		want cluster.ComponentConfig
	}{
		{"the file", text, nil, cluster.ComponentConfig{Kubeconfig: "/of/the/file", QPS: 7, Burst: 9, NoProfiling: true,
			Election: cluster.Election{LeaderElect: true, LeaseDuration: 33 * time.Second, RenewDeadline: 22 * time.Second, RetryPeriod: 2 * time.Second, Namespace: "kube-system", Name: "mine"}}},
		{"flags", text, []string{"--kubeconfig=/of/the/flag", "--kube-api-qps=1", "--kube-api-burst=2", "--profiling", "--contention-profiling", "--leader-elect=false", "--leader-elect-lease-duration=44s", "--master=https://x"},
			cluster.ComponentConfig{Kubeconfig: "/of/the/file", Master: "https://x", QPS: 7, Burst: 9, NoProfiling: true,
				Election: cluster.Election{LeaseDuration: 44 * time.Second, RenewDeadline: 22 * time.Second, RetryPeriod: 2 * time.Second, Namespace: "kube-system", Name: "mine"}}},
		{"the file says nothing", "clientConnection: {kubeconfig: /a}", []string{"--kube-api-qps=1", "--kube-api-burst=2", "--profiling=false"}, cluster.ComponentConfig{Kubeconfig: "/a", Burst: 30,
			Election: cluster.Election{LeaderElect: true, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, Namespace: "kube-system", Name: "kube-scheduler"}}},
	} {
		var config cluster.SchedulerConfig
		var common componentFlags
		var file schedulerFileFlags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		common.add(flags, &config.ComponentConfig, "kube-scheduler", cluster.SchedulerPort)
		file.add(flags)
		if err := flags.Parse(append(c.args, "--config="+schedulerFile(t, c.text))); err != nil {
			t.Fatal(err)
		}
		read, err := file.apply(flags)
		if err != nil {
			t.Fatal(err)
		}
		if err := file.finish(read, common.profiling, &config); err != nil {
			t.Fatal(err)
		}
		config.NoProfiling = !common.profiling
		got := cluster.ComponentConfig{Kubeconfig: config.Kubeconfig, Master: config.Master, QPS: config.QPS, Burst: config.Burst, NoProfiling: config.NoProfiling, Contention: config.Contention, Election: config.Election}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if c.text == text && (config.Backoff.Initial != 4*time.Second || config.Backoff.Max != 5*time.Second || config.Parallelism != 3) {
			t.Errorf("%s: backoff %v, parallelism %d", c.name, config.Backoff, config.Parallelism)
		}
	}
}

// TestSchedulerFile_Written: what --write-config-to writes is read, and says the same.
func TestSchedulerFile_Written(t *testing.T) {
	dir := t.TempDir()
	write := func(to string, args ...string) string {
		t.Helper()
		command := newScheduler()
		command.SilenceErrors, command.SilenceUsage = true, true
		command.SetArgs(append(args, "--write-config-to="+filepath.Join(dir, to)))
		if err := command.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, to))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := write("first", "--kubeconfig=/a/b", "--leader-elect=false", "--config="+schedulerFile(t, "profiles: [{schedulerName: x, plugins: {score: {disabled: [{name: NodeAffinity}]}}}]"))
	for _, want := range []string{"schedulerName: x", "leaderElect: false", `kubeconfig: ""`} {
		if !strings.Contains(first, want) {
			t.Errorf("no %s in\n%s", want, first)
		}
	}
	if second := write("second", "--config="+filepath.Join(dir, "first")); second != first {
		t.Errorf("read and written again (-want +got):\n%s", cmp.Diff(first, second))
	}
	if plain := write("third", "--kubeconfig=/a/b"); !strings.Contains(plain, "kubeconfig: /a/b") || !strings.Contains(plain, "schedulerName: default-scheduler") {
		t.Errorf("without a file:\n%s", plain)
	}
}

func TestSchedulerRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--kubeconfig is needed"},
		{[]string{"--kubeconfig=/a", "--config=" + schedulerFile(t, "")}, "clientConnection.kubeconfig is needed in the file of --config"},
		{[]string{"--config=/nonexistent/config"}, "open /nonexistent/config: no such file or directory"},
		{[]string{"--config=" + schedulerFile(t, "podPriority: 1")}, `strict decoding error: unknown field "podPriority"`},
		{[]string{"--config=" + schedulerFile(t, "clientConnection: {kubeconfig: /a}"), "--leader-elect-lease-duration=1s"}, "leaderElection.leaseDuration: Invalid value"},
		{[]string{"--kubeconfig=/a", "--leader-elect-lease-duration=1s"}, "leaderElection.leaseDuration: Invalid value"},
	} {
		command := newScheduler()
		command.SilenceErrors, command.SilenceUsage = true, true
		command.SetArgs(c.args)
		if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
	}
}
