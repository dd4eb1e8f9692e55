package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestDeployment goes the way of everybody's first hour.
func TestDeployment(t *testing.T) {
	c := start(t)
	c.kubectl("create", "deployment", "hello", "--image=demo:1", "--replicas=2")
	c.kubectl("rollout", "status", "deployment/hello", "--timeout="+patience.String())

	c.kubectl("scale", "deployment/hello", "--replicas=4")
	c.kubectl("rollout", "status", "deployment/hello", "--timeout="+patience.String())
	c.versions(4, "1")

	c.kubectl("set", "image", "deployment/hello", "demo=demo:2")
	c.kubectl("rollout", "status", "deployment/hello", "--timeout="+patience.String())
	c.versions(4, "2")

	c.kubectl("rollout", "undo", "deployment/hello")
	c.kubectl("rollout", "status", "deployment/hello", "--timeout="+patience.String())
	c.versions(4, "1")

	c.kubectl("delete", "deployment/hello")
	c.versions(0, "")
}

// versions waits until so many pods of the deployment hello run, none else, and all say that they are of the version.
func (c *cluster) versions(count int, version string) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("%d pods of version %s", count, version), func() error {
		pods := strings.Fields(c.kubectl("get", "pods", "-l", "app=hello", "-o", "name"))
		if len(pods) != count {
			return fmt.Errorf("there are %v", pods)
		}
		return nil
	})
	for _, pod := range strings.Fields(c.kubectl("get", "pods", "-l", "app=hello", "-o", "name")) {
		said := c.kubectl("exec", pod, "--", "/demo", "fetch", "http://127.0.0.1:8080/")
		if !strings.Contains(said, "version: "+version) {
			c.t.Errorf("%s says %q, want version %s", pod, said, version)
		}
	}
}
