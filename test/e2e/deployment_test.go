package e2e

import (
	"fmt"
	"strings"
	"testing"

	"vigil/internal/eventually"
	"vigil/test/harness"
)

// TestDeployment goes the way of everybody's first hour.
func TestDeployment(t *testing.T) {
	c := start(t)
	c.Kubectl("create", "deployment", "hello", "--image=demo:1", "--replicas=2")
	c.Kubectl("rollout", "status", "deployment/hello", harness.InTime)

	c.Kubectl("scale", "deployment/hello", "--replicas=4")
	c.Kubectl("rollout", "status", "deployment/hello", harness.InTime)
	c.versions(4, "1")

	c.Kubectl("set", "image", "deployment/hello", "demo=demo:2")
	c.Kubectl("rollout", "status", "deployment/hello", harness.InTime)
	c.versions(4, "2")

	c.Kubectl("rollout", "undo", "deployment/hello")
	c.Kubectl("rollout", "status", "deployment/hello", harness.InTime)
	c.versions(4, "1")

	c.Kubectl("delete", "deployment/hello")
	c.versions(0, "")
}

// versions waits until so many pods of the deployment hello run, none else, and all say that they are of the version.
func (c *cluster) versions(count int, version string) {
	c.T.Helper()
	eventually.Nil(c.T, fmt.Sprintf("%d pods of version %s", count, version), func() error {
		pods := strings.Fields(c.Kubectl("get", "pods", "-l", "app=hello", "-o", "name"))
		if len(pods) != count {
			return fmt.Errorf("there are %v", pods)
		}
		return nil
	})
	for _, pod := range strings.Fields(c.Kubectl("get", "pods", "-l", "app=hello", "-o", "name")) {
		said := c.Kubectl("exec", pod, "--", "/demo", "fetch", "http://127.0.0.1:8080/")
		if !strings.Contains(said, "version: "+version) {
			c.T.Errorf("%s says %q, want version %s", pod, said, version)
		}
	}
}
