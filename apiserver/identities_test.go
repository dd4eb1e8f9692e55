package apiserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authz"
	"vigil/internal/eventually"
)

// TestConnections_Identity: every open connection is visible with the identity it has, over both versions of HTTP.
func TestConnections_Identity(t *testing.T) {
	t.Parallel()
	s, c, _ := start(t, func(c *apiserver.Config) { c.Authorizer = everybody{} })
	for _, proto := range []string{"h2", "http/1.1"} {
		for user, groups := range map[string][]string{
			"alice":                            {"dev", "a-team"},
			"system:node:n1":                   {"system:nodes"},
			"system:serviceaccount:prod:proxy": {"system:serviceaccounts"},
		} {
			config, err := rest.TLSConfigFor(s.Client(user, groups...))
			if err != nil {
				t.Fatal(err)
			}
			conn := connect(t, s, config, proto)
			namespace := ""
			if strings.Contains(user, ":prod:") {
				namespace = "prod"
			}
			shown := func() bool {
				for line := range strings.Lines(string(c.get("/metrics").body)) {
					if strings.HasPrefix(line, "apiserver_connections{") && strings.HasSuffix(line, "} 1\n") &&
						strings.Contains(line, fmt.Sprintf("user=%q", user)) && strings.Contains(line, fmt.Sprintf("namespace=%q", namespace)) &&
						strings.Contains(line, groups[0]) {
						return true
					}
				}
				return false
			}
			eventually.True(t, user+" is connected", shown)
			conn.Close()
			eventually.True(t, user+" has left", func() bool { return !shown() })
		}
	}
}

// everybody may do anything.
type everybody struct{}

func (everybody) Authorize(context.Context, *authz.Attributes) (bool, string, error) {
	return true, "", nil
}

// connect sends a request over a connection of its own and returns that. Over HTTP/1.1 it is a watch, for which the connection leaves
// net/http.
func connect(t *testing.T, s *apiservertest.Server, config *tls.Config, proto string) net.Conn {
	t.Helper()
	if proto == "h2" {
		f := dialFramerAs(t, s, config, 1<<20)
		f.get("/version", "application/json")
		return f.conn
	}
	config.NextProtos = []string{proto}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprint(conn, "GET /api/v1/namespaces?watch=true HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Fatalf("watch: %q, %v", line, err)
	}
	return conn
}

// TestGoawayChance: clients with HTTP/2 are told to connect anew, at the latest after their request, and go on without an error.
func TestGoawayChance(t *testing.T) {
	t.Parallel()
	_, c, k := start(t, func(c *apiserver.Config) { c.GoawayChance = 1 })
	namespace(t, k, "a")
	rv := configMap(t, k, "a", "c0")
	w := c.watch("/api/v1/configmaps?watch=true&resourceVersion=" + rv)
	for i := range 5 {
		name := fmt.Sprint("c", i+1)
		configMap(t, k, "a", name)
		w.expect("ADDED " + name) // which goes on over the old connection
	}
}
