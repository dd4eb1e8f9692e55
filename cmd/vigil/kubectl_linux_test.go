package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"vigil/cluster"
)

// asKubectl runs `vigil kubectl` in an empty home without a cluster. environment is NAME=VALUE.
func asKubectl(t *testing.T, environment []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	home := t.TempDir()
	command := exec.Command("/proc/self/exe", append([]string{"kubectl"}, args...)...)
	command.Env = append([]string{programVariable + "=1", "HOME=" + home, "PATH=" + os.Getenv("PATH"), cluster.DataDirVariable + "=" + filepath.Join(home, "data")}, environment...)
	var out, errs strings.Builder
	command.Stdout, command.Stderr = &out, &errs
	err := command.Run()
	if err != nil {
		if _, ended := err.(*exec.ExitError); !ended {
			t.Fatal(err)
		}
	}
	return out.String(), errs.String(), command.ProcessState.ExitCode()
}

// TestKubectl: `vigil kubectl` behaves as upstream's binary does: flags of logging, underscores in flags, plug-ins, exit codes. Without a
// cluster one sentence comes first that says so.
func TestKubectl(t *testing.T) {
	t.Run("no cluster", func(t *testing.T) {
		_, errs, code := asKubectl(t, nil, "get", "pods")
		if first, _, _ := strings.Cut(errs, "\n"); code != 1 || !strings.Contains(first, "vigil up runs one") || !strings.Contains(first, "KUBECONFIG") {
			t.Errorf("code %d, %s", code, errs)
		}
	})
	t.Run("stopped cluster", func(t *testing.T) {
		data := t.TempDir()
		config := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: [{name: a, cluster: {server: \"https://127.0.0.1:1\"}}]\nusers: [{name: a, user: {token: t}}]\n"
		if err := os.WriteFile(filepath.Join(data, "admin.conf"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		_, errs, code := asKubectl(t, []string{cluster.DataDirVariable + "=" + data}, "get", "pods")
		if first, _, _ := strings.Cut(errs, "\n"); code != 1 || first != "No cluster answers at 127.0.0.1:1: vigil up starts the one in "+data+"." {
			t.Errorf("code %d, %s", code, errs)
		}
	})
	t.Run("nothing to connect to", func(t *testing.T) {
		out, errs, code := asKubectl(t, nil, "version", "--client")
		if code != 0 || errs != "" || !strings.Contains(out, "Client Version:") {
			t.Errorf("code %d, %q, %q", code, out, errs)
		}
	})
	t.Run("verbosity", func(t *testing.T) {
		for _, args := range [][]string{{"-v", "8"}, {"--v=8"}, {"-v=6", "--vmodule=loader=9"}} {
			if _, errs, _ := asKubectl(t, nil, append([]string{"get", "pods"}, args...)...); !strings.Contains(errs, "GET") {
				t.Errorf("%v shows no request: %s", args, errs)
			}
		}
		if _, errs, code := asKubectl(t, nil, "get", "pods", "-v=loud"); code != 1 || !strings.Contains(errs, `invalid argument "loud" for "-v, --v" flag`) {
			t.Errorf("code %d, %s", code, errs)
		}
	})
	t.Run("underscores", func(t *testing.T) {
		if out, errs, code := asKubectl(t, nil, "create", "configmap", "a", "--from_literal=b=c", "--dry_run=client", "-o", "name"); code != 0 || out != "configmap/a\n" {
			t.Errorf("code %d, %q, %q", code, out, errs)
		}
	})
	t.Run("plug-ins", func(t *testing.T) {
		bin := t.TempDir()
		for _, name := range []string{"kubectl-hello", "kubectl-create-hello"} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho \"$(basename $0) $*\"; exit 7\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		path := []string{"PATH=" + bin + ":" + os.Getenv("PATH")}
		for want, args := range map[string][]string{
			"kubectl-hello there\n":        {"hello", "there"},
			"kubectl-create-hello there\n": {"create", "hello", "there"},
		} {
			if out, errs, code := asKubectl(t, path, args...); code != 7 || out != want {
				t.Errorf("%v: code %d, %q, %q", args, code, out, errs)
			}
		}
		if _, errs, code := asKubectl(t, nil, "hullo"); code != 1 || !strings.Contains(errs, `unknown command "hullo" for "kubectl"`) {
			t.Errorf("code %d, %s", code, errs)
		}
	})
	t.Run("exit code of diff", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "none.yaml")
		if _, errs, code := asKubectl(t, nil, "diff", "-f", file); code < 2 {
			t.Errorf("code %d, %s", code, errs)
		}
	})
}
