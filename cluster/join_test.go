package cluster_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/cluster"
	"vigil/internal/eventually"
	"vigil/internal/porttest"
	"vigil/kubelet/node"
)

// A node that has nothing but a bootstrap token gets a certificate, joins, and renews the certificate by itself.
func TestJoin(t *testing.T) {
	port := porttest.Free(t)
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	config := cluster.UpConfig{
		DataDir: t.TempDir(), Nodes: 1, Runtime: node.RuntimeSimulated, Out: io.Discard, CertificateLife: 15 * time.Second,
		APIServer: cluster.APIServerConfig{BindAddress: "127.0.0.1", SecurePort: port}, Logger: logger,
	}
	ctx, stop := context.WithCancel(t.Context())
	ended, joined := make(chan error, 1), make(chan error, 1)
	go func() { ended <- cluster.Up(ctx, config) }()
	defer func() {
		stop()
		for _, c := range []chan error{joined, ended} {
			if err := <-c; err != nil {
				t.Errorf("ended: %v", err)
			}
		}
	}()
	client := adminWhenReady(t, config.DataDir, ended)
	_, kubeconfig, err := cluster.CreateToken(ctx, config.DataDir, time.Hour, "")
	if err != nil {
		joined <- nil
		t.Fatal(err)
	}
	dir := t.TempDir()
	joiner := node.Config{
		NodeName: "joiner", Kubeconfig: filepath.Join(dir, "kubelet.conf"), BootstrapKubeconfig: filepath.Join(dir, "bootstrap.conf"), Logger: logger,
		StatusUpdateFrequency: time.Second, Runtime: node.RuntimeSimulated,
	}
	if err := os.WriteFile(joiner.BootstrapKubeconfig, kubeconfig, 0o600); err != nil {
		t.Error(err)
	}
	go func() { joined <- node.Run(ctx, joiner) }()

	eventually.True(t, "the node joins", func() bool {
		n, err := client.CoreV1().Nodes().Get(ctx, "joiner", metav1.GetOptions{})
		return err == nil && ready(n)
	})
	file := filepath.Join(dir, "pki", "kubelet-client-current.pem")
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "the certificate is renewed", func() bool {
		now, err := os.ReadFile(file)
		return err == nil && string(now) != string(first)
	})
	begin := time.Now()
	eventually.True(t, "the node is heard of after the first certificate has ended", func() bool {
		lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, "joiner", metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime.After(begin.Add(8*time.Second))
	})

	// Nobody needs credentials to find the cluster, and the token is good for asking only.
	anonymous, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	bootstrapper, err := kubernetes.NewForConfig(anonymous)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bootstrapper.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{}); err == nil {
		t.Error("a bootstrap token reads secrets")
	}
	public, err := kubernetes.NewForConfig(rest.AnonymousClientConfig(anonymous))
	if err != nil {
		t.Fatal(err)
	}
	eventually.True(t, "cluster-info is signed", func() bool {
		info, err := public.CoreV1().ConfigMaps("kube-public").Get(ctx, "cluster-info", metav1.GetOptions{})
		return err == nil && len(info.Data) == 2
	})
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
