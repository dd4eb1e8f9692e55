package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/internal/eventually"
	"vigil/internal/porttest"
	"vigil/kubelet/certificates"
	"vigil/kubelet/node"
	"vigil/pki"
)

// TestServing: the kubelet of a node that joined gets a serving certificate by which the API server knows it, another one when it has
// another address, and trusts those whom the cluster's authority has signed.
func TestServing(t *testing.T) {
	port := porttest.Free(t)
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	dir := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() {
		ended <- Up(ctx, UpConfig{
			DataDir: dir, Runtime: node.RuntimeSimulated, Out: io.Discard, Logger: logger, APIServer: APIServerConfig{BindAddress: "127.0.0.1", SecurePort: port},
		})
	}()
	running := 1
	defer func() {
		stop()
		for range running {
			if err := <-ended; err != nil {
				t.Errorf("ended: %v", err)
			}
		}
	}()
	soon := func(what string, try func() error) {
		t.Helper()
		eventually.Nil(t, what, func() error {
			err := try()
			if err == nil {
				return nil
			}
			select {
			case end := <-ended:
				running--
				t.Fatalf("%s: %v; the cluster ended: %v", what, err, end)
			default:
			}
			return err
		})
	}
	const name = "joiner"
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "192.0.2.7"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.8"}, {Type: corev1.NodeHostName, Address: name},
	}}}
	soon("make the node", func() error {
		client, _, err := adminClient(dir)
		if err == nil {
			_, err = client.CoreV1().Nodes().Create(ctx, object, metav1.CreateOptions{})
		}
		return err
	})
	config := certificates.Client{NodeName: name, Kubeconfig: filepath.Join(t.TempDir(), "kubelet.conf"), Logger: logger}
	config.BootstrapKubeconfig = config.Kubeconfig + ".bootstrap"
	soon("get a token that is good for something", func() error {
		client, _, err := adminClient(dir)
		if err == nil {
			_, err = client.RbacV1().ClusterRoleBindings().Get(ctx, "kubeadm:node-autoapprove-certificate-rotation", metav1.GetOptions{})
		}
		if err != nil {
			return err
		}
		_, kubeconfig, err := CreateToken(ctx, dir, time.Hour, "")
		if err == nil {
			err = os.WriteFile(config.BootstrapKubeconfig, kubeconfig, 0o600)
		}
		return err
	})
	if err := config.Bootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	rest, err := pki.ClientConfig(config.Kubeconfig, nil)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := pki.NewBundle(filepath.Join(dir, "pki", "ca.crt"), nil)
	if err != nil {
		t.Fatal(err)
	}
	clientCA := filepath.Join(t.TempDir(), "ca.crt")
	if err := certificates.WriteAuthority(config.Kubeconfig, clientCA); err != nil {
		t.Fatal(err)
	}
	trusted, err := pki.NewBundle(clientCA, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !trusted.Pool().Equal(authority.Pool()) {
		t.Error("it trusts others than the cluster's authority")
	}
	for _, address := range []string{"192.0.2.7", "192.0.2.8"} {
		serving := certificates.NewServing(certificates.ServingConfig{
			Client: client, NodeName: name, IPs: []net.IP{net.ParseIP(address)}, Dir: filepath.Dir(config.File()), Logger: logger,
		})
		if address == "192.0.2.7" {
			if _, err := serving.Get(nil); !errors.Is(err, certificates.ErrNotServing) {
				t.Errorf("before there is one: %v", err)
			}
		}
		working, end := context.WithCancel(ctx)
		go func() { ended <- serving.Run(working) }()
		running++
		soon("a certificate for "+address, func() error {
			pair, err := serving.Get(nil)
			if err != nil {
				return err
			}
			cert, err := x509.ParseCertificate(pair.Certificate[0])
			if err != nil {
				return err
			}
			_, err = cert.Verify(x509.VerifyOptions{Roots: authority.Pool(), DNSName: address, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
			return err
		})
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		running--
	}
}
