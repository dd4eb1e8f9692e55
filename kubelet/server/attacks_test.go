package server_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/remotecommand"

	"vigil/apiserver"
)

// TestAttack_NodeAtServer: a Node that says it is where the API server is does not get the server's requests to itself.
func TestAttack_NodeAtServer(t *testing.T) {
	c := startWith(t, func(_ *cluster, config *apiserver.Config) {
		config.Connections.AllowLoopback = false
		config.Connections.OwnNodes = []string{nodeName}
	})
	server, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(server.Port())
	if err != nil {
		t.Fatal(err)
	}
	client := c.admin(t)
	for name, address := range map[string]string{
		"by-address": "127.0.0.1", "by-another-address": "127.7.7.7", "by-name": "localhost", "by-nothing": "0.0.0.0", "by-ipv6": "::1", "mapped": "::ffff:127.0.0.1",
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
				Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}},
				DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
			}}
			if _, err := c.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{Name: "main", Image: "i"}}}}
			if _, err := c.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			inPod := c.URL + "/api/v1/namespaces/default/pods/" + name
			for what, path := range map[string]string{
				"its kubelet": c.URL + "/api/v1/nodes/" + name + "/proxy/api/v1/secrets",
				"a port":      c.URL + "/api/v1/nodes/https:" + name + ":" + strconv.Itoa(port) + "/proxy/api/v1/secrets",
				"its logs":    inPod + "/log",
			} {
				if code, text := do(t, client, "GET", path); code < 400 || !strings.Contains(text, "address not allowed") {
					t.Errorf("%s: %d %s", what, code, text)
				}
			}
		})
	}
	// The node that is this machine goes on working.
	c.node.append(t, "web-main", entry("stdout", "one"))
	if got, err := c.log(t.Context(), "web", &corev1.PodLogOptions{}); err != nil || got != "one\n" {
		t.Errorf("logs of this machine's node: %q, %v", got, err)
	}
}

// TestAttack_NodeAtAddress: a node that got its serving certificate for an address before another node came to have that address is not taken for that node, by no connection,
// neither a new one nor one that was made for itself. Certificates that name no node are good for what they say.
func TestAttack_NodeAtAddress(t *testing.T) {
	c := start(t)
	c.node.append(t, "web-main", entry("stdout", "one"))
	if got, err := c.log(t.Context(), "web", &corev1.PodLogOptions{}); err != nil || got != "one\n" { // a connection is kept
		t.Fatalf("logs of the node itself: %q, %v", got, err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "victim"}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(c.port)}},
	}}
	if _, err := c.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "secret"}, Spec: corev1.PodSpec{NodeName: "victim", Containers: []corev1.Container{{Name: "main", Image: "i"}}}}
	if _, err := c.client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := c.admin(t)
	inPod := c.URL + "/api/v1/namespaces/default/pods/secret"
	const says = "the kubelet of node victim shows a certificate of "
	for what, path := range map[string]string{"its kubelet": c.URL + "/api/v1/nodes/victim/proxy/pods", "its logs": inPod + "/log"} {
		if code, text := do(t, client, "GET", path); code < 400 || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s", what, code, text)
		}
	}
	for _, p := range protocols {
		e, err := p.dial(c.Admin(), c.session("secret", "exec", &corev1.PodExecOptions{Command: []string{"echo"}, Stdout: true}))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := e.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out}); err == nil || out.Len() > 0 {
			t.Errorf("exec by %s: %q, %v", p.name, out.String(), err)
		} else {
			t.Logf("exec by %s: %v", p.name, err)
		}
	}
	if _, err := c.log(t.Context(), "secret", &corev1.PodLogOptions{InsecureSkipTLSVerifyBackend: true}); err != nil && strings.Contains(err.Error(), "certificate") {
		t.Errorf("logs of whoever is there, as asked for: %v", err)
	}
}
