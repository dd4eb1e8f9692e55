package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"vigil/internal/eventually"
	"vigil/test/harness"
)

// sessions: exec, attach, cp and port-forward.
func sessions(t *testing.T, c *cluster) {
	c.apply(manifest("box", `containers: [{name: c, image: "demo:1"}, {name: other, image: "demo:2", args: [serve, "--listen=:8081"]}]`) +
		manifest("talk", `restartPolicy: Never, containers: [{name: c, image: "demo:1", args: [sh], stdin: true, stdinOnce: true}]`) +
		"{apiVersion: v1, kind: Service, metadata: {name: box}, spec: {selector: {app: box}, ports: [{port: 80, targetPort: 8081}]}}")
	c.running("box")
	if out := c.KubectlIn("through\nthe wire\n", "exec", "-i", "box", "--", "/demo", "cat"); out != "through\nthe wire\n" {
		t.Errorf("exec -i: %q", out)
	}
	if out := c.Kubectl("exec", "box", "-c", "other", "--", "/demo", "env"); !strings.Contains(out, "DEMO_VERSION=2\n") {
		t.Errorf("exec -c other: %q", out)
	}
	_, said, err := c.TryKubectl("", "exec", "box", "--", "/demo", "exit", "7")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || !strings.Contains(said, "command terminated with exit code 7") {
		t.Errorf("exec of a command that ends with 7: %v, %q", err, said)
	}
	c.terminal()

	c.running("talk")
	if out := c.KubectlIn("echo attached\nexit 5\n", "attach", "-i", "talk"); !strings.Contains(out, "attached\n") {
		t.Errorf("attach -i: %q", out)
	}
	c.untilPod("talk", "what was attached to has ended", func(p *corev1.Pod) bool {
		ended := container(p, "c").State.Terminated
		return ended != nil && ended.ExitCode == 5
	})

	dir := t.TempDir()
	text := strings.Repeat("0123456789abcdef", 1<<16) // 1 MiB
	if err := os.WriteFile(filepath.Join(dir, "there"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	c.Kubectl("cp", filepath.Join(dir, "there"), "box:/tmp/copy")
	c.Kubectl("cp", "box:/tmp/copy", filepath.Join(dir, "back"))
	if back, err := os.ReadFile(filepath.Join(dir, "back")); err != nil || string(back) != text {
		t.Errorf("there and back came %d bytes of %d, %v", len(back), len(text), err)
	}
	c.forward("pod/box", "8080", "version: 1\n")
	c.forward("service/box", "80", "version: 2\n")
}

// terminal has a session on a terminal, of 33 lines and 99 columns, as a person has.
func (c *cluster) terminal() {
	c.T.Helper()
	master, slave := openTerminal(c.T)
	ctx, cancel := context.WithTimeout(c.T.Context(), eventually.Limit)
	defer cancel()
	cmd := c.Command(ctx, "exec", "-it", "box", "--", "/demo", "sh")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	slave.Close()
	screen := &harness.Screen{}
	go func() { _, _ = io.Copy(screen, master) }() // ends when the last holder of the slave does
	say := func(line, answer string) {
		c.T.Helper()
		if _, err := io.WriteString(master, line); err != nil {
			c.T.Fatal(err)
		}
		eventually.Nil(c.T, "the terminal shows "+answer, func() error {
			if shown := screen.String(); !strings.Contains(shown, answer) {
				return fmt.Errorf("it shows %q", shown)
			}
			return nil
		})
	}
	say("", "$ ")
	say("echo a word\r", "\r\na word\r\n")
	say("ls /proc/self/fd\r", "/dev/pts/")
	if _, err := io.WriteString(master, "exit 9\r"); err != nil {
		c.T.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 9 {
		c.T.Errorf("the session on a terminal ended with %v, want exit code 9; it shows %q", err, screen.String())
	}
}

// openTerminal makes a pseudo-terminal (pty(7)).
func openTerminal(t testing.TB) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 99}); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// forward reads a page through port-forward.
func (c *cluster) forward(to, port, want string) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), eventually.Limit)
	defer cancel()
	cmd := c.Command(ctx, "port-forward", to, ":"+port)
	out, err := cmd.StdoutPipe()
	if err != nil {
		c.T.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }() // it is killed
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		c.T.Fatalf("port-forward %s says nothing: %v", to, lines.Err())
	}
	local := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(lines.Text())
	for range 3 { // connections of their own
		if page, err := get("http://" + local + "/"); err != nil || !strings.Contains(page, want) {
			c.T.Fatalf("through port-forward %s at %q: %v\n%s\n%s", to, local, err, page, said.String())
		}
	}
}

// get reads a page over a connection of its own.
func get(url string) (string, error) {
	client := http.Client{Timeout: eventually.Limit, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// logs: what containers say can be read while and after they run, whole and in part.
func logs(t *testing.T, c *cluster) {
	c.apply(manifest("talk", `containers: [{name: c, image: "demo:1", args: [sh, -c, "echo one; sleep 1.1; echo two; echo three; sleep 1000"]}, {name: d, image: "demo:1", args: [sh, -c, "echo other; sleep 1000"]}]`) +
		manifest("web", `containers: [{name: c, image: "demo:1", args: [serve, --quiet]}]`))
	want := func(want string, args ...string) {
		t.Helper()
		if out := c.Kubectl(append([]string{"logs", "talk"}, args...)...); out != want {
			t.Errorf("logs %v: %q, want %q", args, out, want)
		}
	}
	c.running("talk")
	eventually.Nil(c.T, "all has been said", func() error {
		if out := c.Kubectl("logs", "talk", "-c", "c"); !strings.HasSuffix(out, "three\n") {
			return errors.New(out)
		}
		return nil
	})
	want("one\ntwo\nthree\n", "-c", "c")
	want("three\n", "-c", "c", "--tail=1")
	want("one\ntwo\nthree\n", "-c", "c", "--since=1h")
	want("one\n", "-c", "c", "--limit-bytes=4")
	all := strings.SplitAfter(c.Kubectl("logs", "talk", "--all-containers", "--prefix", "--tail=1"), "\n")
	slices.Sort(all) // kubectl asks for the containers in any order
	if got := strings.Join(all, ""); got != "[pod/talk/c] three\n[pod/talk/d] other\n" {
		t.Errorf("logs of all containers: %q", got)
	}
	want("other\n", "-c", "d")
	stamped := strings.Split(c.Kubectl("logs", "talk", "-c", "c", "--timestamps"), "\n")
	at, word, _ := strings.Cut(stamped[1], " ")
	if _, err := time.Parse(time.RFC3339Nano, at); err != nil || word != "two" {
		t.Errorf("with --timestamps the second line is %q: %v", stamped[1], err)
	}
	want("two\nthree\n", "-c", "c", "--since-time="+at)

	c.running("web")
	follow := &harness.Screen{}
	ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
	defer cancel()
	cmd := c.Command(ctx, "logs", "-f", "web")
	cmd.Stdout, cmd.Stderr = follow, follow
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	shows := func(text string) {
		t.Helper()
		eventually.Nil(c.T, "logs -f shows "+text, func() error {
			if shown := follow.String(); !strings.Contains(shown, text) {
				return fmt.Errorf("it shows %q", shown)
			}
			return nil
		})
	}
	shows("msg=serving")
	c.demo("web", "fetch", "http://127.0.0.1:8080/log?text=while-it-runs")
	shows("while-it-runs\n")
	_, _, _ = c.TryKubectl("", "exec", "web", "--", "/demo", "fetch", "http://127.0.0.1:8080/exit?code=6") // it breaks off
	shows("msg=exiting code=6")
	if err := cmd.Wait(); err != nil {
		t.Errorf("logs -f ended with its container: %v\n%s", err, follow.String())
	}
	c.untilPod("web", "restarted", func(p *corev1.Pod) bool { return container(p, "c").RestartCount == 1 && isReady(p) })
	if out := c.Kubectl("logs", "--previous", "web"); !strings.Contains(out, "while-it-runs\n") || !strings.Contains(out, "msg=exiting code=6") {
		t.Errorf("logs --previous: %q", out)
	}
	if out := c.Kubectl("logs", "web"); strings.Contains(out, "while-it-runs") || !strings.Contains(out, "msg=serving") {
		t.Errorf("logs after the restart: %q", out)
	}
}

// ports: a pod is reached at its own address, a port of the node and, on the node's network, at the node's address.
func ports(t *testing.T, c *cluster) {
	c.apply(manifest("inner", `containers: [{name: c, image: "demo:1", ports: [{containerPort: 8080, hostPort: 18080}]}]`) +
		manifest("outer", `hostNetwork: true, containers: [{name: c, image: "demo:2", args: [serve, "--listen=:18081"]}]`))
	inner, outer := c.running("inner"), c.running("outer")
	if outer.Status.PodIP != outer.Status.HostIP || inner.Status.PodIP == inner.Status.HostIP {
		t.Errorf("addresses: %s of %s, with the host's network %s of %s", inner.Status.PodIP, inner.Status.HostIP, outer.Status.PodIP, outer.Status.HostIP)
	}
	for address, version := range map[string]string{
		net.JoinHostPort(inner.Status.PodIP, "8080"):   "version: 1\n",
		net.JoinHostPort(inner.Status.HostIP, "18080"): "version: 1\n",
		"127.0.0.1:18080": "version: 1\n",
		net.JoinHostPort(outer.Status.HostIP, "18081"): "version: 2\n",
	} {
		eventually.Nil(c.T, "an answer from "+address, func() error {
			page, err := get("http://" + address + "/")
			if err == nil && !strings.Contains(page, version) {
				err = errors.New(page)
			}
			return err
		})
		if page := c.demo("outer", "fetch", "http://"+address+"/"); !strings.Contains(page, version) {
			t.Errorf("a pod of the host's network asks %s: %q", address, page)
		}
	}
	if page := c.demo("inner", "fetch", "http://"+net.JoinHostPort(outer.Status.HostIP, "18081")+"/"); !strings.Contains(page, "version: 2\n") {
		t.Errorf("a pod asks the node: %q", page)
	}
}
