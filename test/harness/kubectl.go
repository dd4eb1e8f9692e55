package harness

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"vigil/internal/built"
	"vigil/internal/eventually"
)

// InTime makes kubectl wait as long as tests do.
var InTime = "--timeout=" + eventually.Limit.String()

// Command returns kubectl as the administrator, not started.
func (c *Cluster) Command(ctx context.Context, args ...string) *exec.Cmd {
	c.T.Helper()
	all := []string{"kubectl"}
	if c.Namespace != "" {
		all = append(all, "--namespace", c.Namespace)
	}
	cmd := exec.CommandContext(ctx, built.Program(c.T), append(all, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig(), "HOME="+c.DataDir)
	return cmd
}

// TryKubectl runs kubectl and returns what it printed.
func (c *Cluster) TryKubectl(stdin string, args ...string) (stdout, stderr string, err error) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventually.Limit)
	defer cancel()
	cmd := c.Command(ctx, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// Kubectl runs kubectl, which must succeed, and returns its standard output.
func (c *Cluster) Kubectl(args ...string) string {
	c.T.Helper()
	return c.KubectlIn("", args...)
}

// KubectlIn is Kubectl with something on its standard input.
func (c *Cluster) KubectlIn(stdin string, args ...string) string {
	c.T.Helper()
	stdout, stderr, err := c.TryKubectl(stdin, args...)
	if err != nil {
		c.T.Fatalf("kubectl %s: %v\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stdout
}

// KubectlFails runs kubectl, which must fail, and returns what it said on standard error.
func (c *Cluster) KubectlFails(stdin string, args ...string) string {
	c.T.Helper()
	stdout, stderr, err := c.TryKubectl(stdin, args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		c.T.Fatalf("kubectl %s: %v, want a failure\n%s%s", strings.Join(args, " "), err, stdout, stderr)
	}
	return stderr
}
