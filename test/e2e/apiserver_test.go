package e2e

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/nstest"
	"vigil/kubelet/network"
)

// TestAPIServer_FromPods asks the API server from pods on each node under the address that the Service kubernetes names, with the authority that
// pods are given. Whoever is beside the machine is let in neither there nor elsewhere.
func TestAPIServer_FromPods(t *testing.T) {
	c := start(t, "--nodes", "2")
	slices, err := c.Client().DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || len(slices.Endpoints) != 1 || len(slices.Ports) != 1 {
		t.Fatalf("endpoints of the API server: %+v, %v", slices, err)
	}
	address := net.JoinHostPort(slices.Endpoints[0].Addresses[0], fmt.Sprint(*slices.Ports[0].Port))
	if address != nstest.BridgeAddress.String()+":6443" {
		t.Errorf("the Service kubernetes names %s, which is not this machine's address", address)
	}
	const pod = `nodeName: node-%d, hostNetwork: %t, containers: [{name: c, image: "demo:1", command: [/demo, sleep, 1h], env: [{name: SSL_CERT_FILE, value: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt}]}]`
	names := map[string]string{"one": fmt.Sprintf(pod, 1, false), "two": fmt.Sprintf(pod, 2, false), "host-one": fmt.Sprintf(pod, 1, true), "host-two": fmt.Sprintf(pod, 2, true)}
	for name, spec := range names {
		c.apply(manifest(name, spec))
	}
	want := c.Kubectl("get", "--raw", "/version")
	for name := range names {
		c.running(name)
		if got := c.demo(name, "fetch", "https://"+address+"/version"); got != want {
			t.Errorf("pod %s gets %q, want %q", name, got, want)
		}
	}

	neighbour := nstest.NewNamespace(t)
	err = network.InNamespace(neighbour.Path, func() error {
		dialer := &net.Dialer{Timeout: time.Minute}
		conn, err := tls.DialWithDialer(dialer, "tcp", address, &tls.Config{InsecureSkipVerify: true}) // who answers is the question, not as whom
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a neighbour of the machine connects to %s: %v, want a reset", address, err)
	}
}

// TestAPIServer_AdvertisedWithSimulatedNodes: also without containers this machine reaches the API server at the address that the Service kubernetes names,
// and its serving certificate is good for it.
func TestAPIServer_AdvertisedWithSimulatedNodes(t *testing.T) {
	c := start(t, "--runtime", "simulated")
	slices, err := c.Client().DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	if err != nil || len(slices.Endpoints) != 1 || len(slices.Ports) != 1 {
		t.Fatalf("endpoints of the API server: %+v, %v", slices, err)
	}
	address := net.JoinHostPort(slices.Endpoints[0].Addresses[0], fmt.Sprint(*slices.Ports[0].Port))
	if address != nstest.BridgeAddress.String()+":6443" {
		t.Errorf("the Service kubernetes names %s, which is not this machine's address", address)
	}
	if got := c.Kubectl("--server", "https://"+address, "get", "nodes", "-o", "name"); got != "node/node-1\n" {
		t.Errorf("nodes asked for at %s: %q", address, got)
	}
}
