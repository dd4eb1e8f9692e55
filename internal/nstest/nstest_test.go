//go:build linux

package nstest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
)

// story makes a run of this test binary play a part for the tests below instead of running them.
var story = flag.String("story", "", "what to do instead of running tests")

func TestMain(m *testing.M) {
	Enter()
	flag.Parse()
	if *story != "" {
		os.Exit(play(*story))
	}
	os.Exit(m.Run())
}

// play is a run of tests, as far as Enter is concerned.
func play(story string) int {
	switch story {
	case "exit 7":
		fmt.Println("to stdout")
		fmt.Fprintln(os.Stderr, "to stderr")
		return 7
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "wait":
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		child := exec.Command("/proc/self/exe", "-story=stay")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := child.Start(); err != nil {
			return 1
		}
		for _, hierarchy := range hierarchies() {
			_ = os.MkdirAll(filepath.Join(hierarchy, CgroupRoot(), "below"), 0o755)
		}
		fmt.Println("ready", CgroupRoot())
		<-ctx.Done()
		return 3
	case "stay":
		select {}
	}
	return 0
}

// run starts this binary as `go test` would, outside of the tests' role.
func run(story string) *exec.Cmd {
	command := exec.Command("/proc/self/exe", "-story="+story)
	command.Env = append(os.Environ(), roleVariable+"=")
	return command
}

func TestMain_OwnNamespaces(t *testing.T) {
	Need(t)
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if name := link.Attrs().Name; name != "lo" && name != BridgeName && !strings.HasPrefix(name, "vens") {
			t.Errorf("link %s is not ours", name)
		}
	}
	if self, err := os.Readlink("/proc/self"); err != nil || self != fmt.Sprint(os.Getpid()) {
		t.Errorf("/proc/self is %s (%v), want %d", self, err, os.Getpid())
	}
	if parent := os.Getppid(); parent != 1 {
		t.Errorf("parent is %d, want process 1", parent)
	}
	if _, err := os.Stat("/sys/class/net/lo"); err != nil {
		t.Error(err)
	}
	if len(hierarchies()) == 0 {
		t.Error("no cgroup hierarchies")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("lo is not up: %v", err)
	}
	listener.Close()
}

func TestMain_ExitCodeAndOutput(t *testing.T) {
	Need(t)
	command := run("exit 7")
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	_ = command.Run()
	if code := command.ProcessState.ExitCode(); code != 7 || stdout.String() != "to stdout\n" || stderr.String() != "to stderr\n" {
		t.Errorf("exit code %d, %q, %q", code, stdout.String(), stderr.String())
	}
	command = run("die")
	_ = command.Run()
	if code := command.ProcessState.ExitCode(); code != 137 {
		t.Errorf("exit code after SIGKILL: %d, want 137", code)
	}
}

// started runs the story "wait" and returns when it is ready, with its cgroup. The pipe ends when no process of the story is left.
func started(t *testing.T) (command *exec.Cmd, output io.Reader, cgroup string) {
	t.Helper()
	Need(t)
	command = run("wait")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	command.Stdout = writer
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	if _, err := fmt.Fscanf(reader, "ready %s\n", &cgroup); err != nil {
		t.Fatal(err)
	}
	return command, reader, cgroup
}

func cgroupLeft(name string) bool {
	for _, hierarchy := range hierarchies() {
		if _, err := os.Stat(filepath.Join(hierarchy, name)); err == nil {
			return true
		}
	}
	return false
}

func TestMain_Interrupt(t *testing.T) {
	command, output, cgroup := started(t)
	if !cgroupLeft(cgroup) {
		t.Fatalf("cgroup %s was not made", cgroup)
	}
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(output); err != nil { // until all have ended
		t.Fatal(err)
	}
	_ = command.Wait()
	if code := command.ProcessState.ExitCode(); code != 3 {
		t.Errorf("exit code %d, want the tests' own 3", code)
	}
	if cgroupLeft(cgroup) {
		t.Errorf("cgroup %s is still there", cgroup)
	}
}

func TestMain_Killed(t *testing.T) {
	command, output, cgroup := started(t)
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(output); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait()
	if err := run("exit").Run(); err != nil { // the next run clears away
		t.Fatal(err)
	}
	if cgroupLeft(cgroup) {
		t.Errorf("cgroup %s is still there", cgroup)
	}
}

func TestNamespace(t *testing.T) {
	one, two := NewNamespace(t), NewNamespace(t)
	var listener net.Listener
	one.Do(t, func() {
		var err error
		if listener, err = net.Listen("tcp", netip.AddrPortFrom(one.Address, 0).String()); err != nil {
			t.Fatal(err)
		}
	})
	defer listener.Close()
	dial := func() {
		t.Helper()
		conn, err := net.DialTimeout("tcp", listener.Addr().String(), time.Minute)
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}
	dial()
	two.Do(t, dial)

	output, err := two.Command("cat", "/proc/net/fib_trie").CombinedOutput()
	if err != nil || !strings.Contains(string(output), two.Address.String()) || strings.Contains(string(output), "|-- "+one.Address.String()+"\n") {
		t.Errorf("a program in the namespace sees %v:\n%s", err, output)
	}
	if err := two.Command("test", "-e", "/sys/class/net/eth0").Run(); err != nil {
		t.Errorf("/sys does not show the namespace: %v", err)
	}
}
