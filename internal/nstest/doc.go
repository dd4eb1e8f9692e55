// Package nstest lets the tests of a package make links, routes, packet rules, mounts, cgroups and containers without
// touching the machine they run on.
//
//	func TestMain(m *testing.M) { nstest.Main(m) }
//
// As root on Linux, Main runs the test binary again in new network, mount, PID, IPC and UTS namespaces. There, lo is up, mounts are
// private, /proc and /sys show the new namespaces, /run and /var/lib/cni are empty file systems, and process 1 reaps orphans. When the
// tests end, however they end, the kernel kills every process in the PID namespace, and with the last one links, rules and mounts go.
// Only files outside of /run and cgroups outlive it: files belong into t.TempDir(), cgroups below CgroupRoot, which the next run clears
// away if this one could not.
//
// Elsewhere, Main runs the tests directly, and Need skips those that cannot do without, with the reason.
//
// Flags, output, exit codes, coverage profiles and signals pass through. The tests do not see the machine's network: there is
// nothing to reach but what they make themselves, for example with NewNamespace.
package nstest

import (
	"os"
	"strings"
	"testing"

	"vigil/internal/need"
)

// roleVariable tells a process of a test binary what it is: "" the one that `go test` started, roleInit process 1 of the new namespaces,
// roleTest one that runs tests, or a child of it, roleEnter one that is about to become another program in a further network
// namespace, and roleDirect with a reason one that runs tests without namespaces.
const roleVariable = "VIGIL_NSTEST"

const (
	roleInit   = "init"
	roleTest   = "test"
	roleEnter  = "enter"
	roleDirect = "direct: "
)

// Main runs the tests in namespaces of their own and exits.
func Main(m *testing.M) {
	Enter()
	os.Exit(m.Run())
}

// Enter returns in the process that is to run the tests, for a TestMain that has more to do than Main.
func Enter() {
	role := os.Getenv(roleVariable)
	switch {
	case role == roleTest, strings.HasPrefix(role, roleDirect):
	case role == roleInit:
		os.Exit(runInit())
	case role == roleEnter:
		os.Exit(runEnter())
	default:
		if reason := unavailable(); reason != "" {
			os.Setenv(roleVariable, roleDirect+reason)
			return
		}
		code, err := runOuter()
		if err != nil {
			os.Setenv(roleVariable, roleDirect+err.Error())
			return
		}
		os.Exit(code)
	}
}

// Reason says why this process has no namespaces of its own; "" when it has.
func Reason() string {
	role := os.Getenv(roleVariable)
	if reason, direct := strings.CutPrefix(role, roleDirect); direct {
		return reason
	}
	if role != roleTest {
		return "the package's TestMain does not call nstest.Main"
	}
	return ""
}

// Need goes on only when there are namespaces for the test, see [need.Missing].
func Need(t testing.TB) {
	t.Helper()
	if reason := Reason(); reason != "" {
		need.Missing(t, reason)
	}
}
