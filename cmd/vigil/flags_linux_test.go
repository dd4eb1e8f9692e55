package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/internal/eventually"
	"vigil/pki"
)

// TestFlags compares an API server that has its defaults with one on the same etcd that was told otherwise: each flag shows.
func TestFlags(t *testing.T) {
	data := t.TempDir()
	etcd, usual, told := ports(t, 2), ports(t, 1), ports(t, 1)
	start(t, "vigil", "up", "--data-dir="+data, "--nodes=0", "--runtime=simulated", "--etcd-port="+etcd, "--secure-port="+usual, "--controller-manager-port=0", "--scheduler-port=0").until("https://127.0.0.1:"+usual+"/readyz", "ok")
	file := func(name string) string { return filepath.Join(data, "pki", name) }
	named := pki.SelfSigned{CommonName: "named.example.com", DNSNames: []string{"named.example.com"}}
	namedCert, namedKey, err := named.Ensure(t.TempDir(), "named", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	start(t, "kube-apiserver", "--bind-address=127.0.0.1", "--secure-port="+told, "--etcd-servers=https://127.0.0.1:"+etcd, "--etcd-cafile="+file("etcd/ca.crt"),
		"--etcd-certfile="+file("apiserver-etcd-client.crt"), "--etcd-keyfile="+file("apiserver-etcd-client.key"), "--tls-cert-file="+file("apiserver.crt"), "--tls-private-key-file="+file("apiserver.key"),
		"--client-ca-file="+file("ca.crt"), "--disable-admission-plugins=ServiceAccount",
		"--default-not-ready-toleration-seconds=7", "--default-unreachable-toleration-seconds=8", "--profiling=false", "--anonymous-auth=false", "--disable-http2-serving",
		"--tls-sni-cert-key="+namedCert+","+namedKey, "--tls-curve-preferences=23", "--tls-min-version=VersionTLS13", "--request-timeout=7s",
	).wait("the server listens", func() error {
		if status, body := answer("https://127.0.0.1:" + told + "/healthz"); status != 401 { // --anonymous-auth=false
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	client := func(port string) *kubernetes.Clientset {
		config, err := clientcmd.BuildConfigFromFlags("https://127.0.0.1:"+port, filepath.Join(data, "admin.conf"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	servers := map[string]*kubernetes.Clientset{usual: client(usual), told: client(told)}

	for port, want := range map[string][2]int64{usual: {300, 300}, told: {7, 8}} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		var made *corev1.Pod
		eventually.Nil(t, "the account of pods is there", func() (err error) {
			made, err = servers[port].CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		})
		seconds := map[string]int64{}
		for _, toleration := range made.Spec.Tolerations {
			seconds[toleration.Key] = *toleration.TolerationSeconds
		}
		if got := [2]int64{seconds[corev1.TaintNodeNotReady], seconds[corev1.TaintNodeUnreachable]}; got != want {
			t.Errorf("pods tolerate nodes that are not ready and unreachable for %v s, want %v", got, want)
		}
	}
	for port, want := range map[string]bool{usual: true, told: false} {
		_, err := servers[port].RESTClient().Get().AbsPath("/debug/pprof/").DoRaw(t.Context())
		if (err == nil) != want || err != nil && !apierrors.IsNotFound(err) {
			t.Errorf("profiles are served: %v, want %t", err, want)
		}
	}
	handshake := func(port string, config *tls.Config) (tls.ConnectionState, error) {
		config.InsecureSkipVerify = true // what the server shows is looked at
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: time.Minute}, "tcp", "127.0.0.1:"+port, config)
		if err != nil {
			return tls.ConnectionState{}, err
		}
		defer conn.Close()
		return conn.ConnectionState(), nil
	}
	for _, c := range []struct {
		name        string
		config      *tls.Config
		usual, told func(tls.ConnectionState) bool // nil: no handshake
	}{
		{"--disable-http2-serving", &tls.Config{NextProtos: []string{"h2", "http/1.1"}},
			func(s tls.ConnectionState) bool { return s.NegotiatedProtocol == "h2" }, func(s tls.ConnectionState) bool { return s.NegotiatedProtocol == "http/1.1" }},
		{"--tls-sni-cert-key", &tls.Config{ServerName: "named.example.com"},
			func(s tls.ConnectionState) bool {
				return !slices.Contains(s.PeerCertificates[0].DNSNames, "named.example.com")
			},
			func(s tls.ConnectionState) bool {
				return slices.Contains(s.PeerCertificates[0].DNSNames, "named.example.com")
			}},
		{"--tls-sni-cert-key, another name", &tls.Config{ServerName: "other.example.com"},
			func(s tls.ConnectionState) bool { return slices.Contains(s.PeerCertificates[0].DNSNames, "kubernetes") },
			func(s tls.ConnectionState) bool { return slices.Contains(s.PeerCertificates[0].DNSNames, "kubernetes") }},
		{"--tls-curve-preferences", &tls.Config{CurvePreferences: []tls.CurveID{tls.X25519}}, func(s tls.ConnectionState) bool { return s.CurveID == tls.X25519 }, nil},
		{"--tls-min-version", &tls.Config{MaxVersion: tls.VersionTLS12, CurvePreferences: []tls.CurveID{tls.CurveP256}}, func(s tls.ConnectionState) bool { return s.Version == tls.VersionTLS12 }, nil},
	} {
		for server, want := range map[string]func(tls.ConnectionState) bool{usual: c.usual, told: c.told} {
			state, err := handshake(server, c.config)
			if (err == nil) != (want != nil) || want != nil && !want(state) {
				t.Errorf("%s: port %s (default: %s): %v, %s", c.name, server, usual, err, state.NegotiatedProtocol)
			}
		}
	}
}
