package main

import (
	"os"
	"os/exec"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"early/collect"
)

// TestEarly: kubectl speaks the user's language, processes that are not kubectl do not load its translations, and no process collects
// garbage while it is initialized.
func TestEarly(t *testing.T) {
	help, errs, code := asKubectl(t, []string{"LC_ALL=zh_CN.UTF-8"}, "create", "--help")
	if code != 0 || !strings.Contains(help, "创建") {
		t.Errorf("code %d, %s%s", code, help, errs)
	}
	command := exec.Command("/proc/self/exe", "--version")
	command.Env = append(os.Environ(), programVariable+"=1", "GODEBUG=inittrace=1,gctrace=1", "GOGC=", "GOMEMLIMIT=")
	var trace strings.Builder
	command.Stderr = &trace
	if err := command.Run(); err != nil {
		t.Fatal(err)
	}
	seen, collections, initialized := 0, 0, 0 // collections so far, and before the last package was initialized
	for line := range strings.Lines(trace.String()) {
		if strings.HasPrefix(line, "gc ") {
			collections++
		}
		words := strings.Fields(line) // init PACKAGE @TIME ms, TIME ms clock, BYTES bytes, NUMBER allocs
		if len(words) > 0 && words[0] == "init" {
			initialized = collections
		}
		if len(words) < 9 || words[0] != "init" || !strings.HasPrefix(words[1], "k8s.io/kubectl/") {
			continue
		}
		seen++
		if allocated, err := strconv.Atoi(words[7]); err != nil || allocated > 2<<20 {
			t.Errorf("package %s allocates %s bytes while it is initialized: %v", words[1], words[7], err)
		}
	}
	if initialized != 0 {
		t.Errorf("%d garbage collections while the program is initialized: %s", initialized, trace.String())
	}
	if seen == 0 {
		t.Errorf("no package of kubectl: %s", trace.String())
	}
}

// TestCollect: once main has begun, garbage is collected as Go does by itself, or as the environment says.
func TestCollect(t *testing.T) {
	want := 100
	if said := os.Getenv("GOGC"); said != "" {
		var err error
		if want, err = strconv.Atoi(said); err != nil {
			t.Fatal(err)
		}
	}
	collect.AsUsual()
	if got := debug.SetGCPercent(want); got != want {
		t.Errorf("GOGC is %d, want %d", got, want)
	}
}
