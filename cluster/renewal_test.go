package cluster_test

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/cluster"
	"vigil/internal/eventually"
	"vigil/internal/porttest"
	"vigil/kubelet/node"
	"vigil/pki"
)

var certificateLife = flag.Duration("certificate-life", 12*time.Second, "life of the certificates of TestRenewal, of which it outlasts two")

// Certificates that live for seconds are renewed under load, at servers and clients, and no request fails of it. A watch that was
// open goes on.
func TestRenewal(t *testing.T) {
	port := porttest.Free(t)
	config := cluster.UpConfig{
		DataDir: t.TempDir(), Nodes: 1, Runtime: node.RuntimeSimulated, Out: io.Discard,
		CertificateLife: *certificateLife,
		APIServer:       cluster.APIServerConfig{BindAddress: "127.0.0.1", SecurePort: port},
		Logger:          slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- cluster.Up(ctx, config) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the cluster ended: %v", err)
		}
	}()
	client := adminWhenReady(t, config.DataDir, ended)
	begin := time.Now()
	first := servingCertificate(t, port)

	watch, err := client.CoreV1().Pods("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	var requests, failed atomic.Int64
	load, done := context.WithTimeout(ctx, 2**certificateLife+*certificateLife/4)
	defer done()
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() {
			own, err := newAdmin(config.DataDir) // each on connections of its own
			if err != nil {
				t.Error(err)
				return
			}
			for load.Err() == nil {
				var err error
				if i%2 == 0 {
					_, err = own.CoreV1().Nodes().List(load, metav1.ListOptions{})
				} else {
					_, err = own.CoreV1().Namespaces().Patch(load, "default", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"n":"`+strconv.FormatInt(requests.Load(), 10)+`"}}}`), metav1.PatchOptions{})
				}
				if load.Err() != nil {
					return
				}
				requests.Add(1)
				if err != nil && failed.Add(1) <= 5 {
					t.Errorf("after %s: %v", time.Since(begin).Round(time.Millisecond), err)
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d requests in %s with certificates that live %s, %d failed", requests.Load(), time.Since(begin).Round(time.Second), *certificateLife, failed.Load())
	if last := servingCertificate(t, port); !last.After(first.Add(*certificateLife)) {
		t.Errorf("the serving certificate was not renewed twice: it ended at %s, now at %s", first, last)
	}

	// What was opened with the first certificates still works, and controllers and scheduler do, too.
	if _, err := client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "late"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	timeout := time.After(eventually.Limit)
	for {
		select {
		case event, open := <-watch.ResultChan():
			if !open {
				t.Fatal("the watch was cut off")
			}
			if pod, ok := event.Object.(*corev1.Pod); ok && pod.Status.Phase == corev1.PodRunning {
				return
			}
		case <-timeout:
			t.Fatal("a pod that was made after the renewals does not run")
		}
	}
}

func newAdmin(dir string) (*kubernetes.Clientset, error) {
	config, err := pki.ClientConfig(filepath.Join(dir, "admin.conf"), nil)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// adminWhenReady waits until the cluster has its node, and returns the administrator's client.
func adminWhenReady(t *testing.T, dir string, ended chan error) *kubernetes.Clientset {
	t.Helper()
	var client *kubernetes.Clientset
	eventually.Nil(t, "the cluster has a node", func() error {
		select {
		case err := <-ended:
			ended <- nil
			t.Fatalf("the cluster ended: %v", err)
		default:
		}
		var err error
		if client, err = newAdmin(dir); err != nil {
			return err
		}
		nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err == nil && len(nodes.Items) != 1 {
			err = fmt.Errorf("it has %d", len(nodes.Items))
		}
		return err
	})
	return client
}

// servingCertificate is the end of the certificate that the API server shows.
func servingCertificate(t *testing.T, port int) time.Time {
	t.Helper()
	conn, err := tls.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].NotAfter
}
