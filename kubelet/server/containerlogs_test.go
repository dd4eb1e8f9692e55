package server_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/internal/eventually"
	"vigil/pki"
)

// entry is a line as runtimes write it.
func entry(stream, text string) string {
	return "2026-01-02T03:04:05.678901234Z " + stream + " F " + text + "\n"
}

func (c *cluster) log(ctx context.Context, pod string, o *corev1.PodLogOptions) (string, error) {
	stream, err := c.client.CoreV1().Pods("default").GetLogs(pod, o).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	data, err := io.ReadAll(stream)
	return string(data), err
}

func TestLogs(t *testing.T) {
	c := start(t)
	c.node.append(t, "web-main", entry("stdout", "one")+entry("stderr", "two")+entry("stdout", "three"))
	c.pod(t, "crashes", "main", "other")
	c.node.append(t, "crashes-main", entry("stdout", "now"))
	c.node.append(t, "crashed-main", entry("stdout", "before"))
	c.node.change("crashes", "main", func(s *corev1.ContainerStatus) {
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ContainerID: "fake://crashed-main"}
	})
	c.node.change("crashes", "other", func(s *corev1.ContainerStatus) {
		s.ContainerID, s.State = "", corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	})
	since := int64(1)
	for _, tc := range []struct {
		pod  string
		opts corev1.PodLogOptions
		want string // or what the error says
	}{
		{"web", corev1.PodLogOptions{}, "one\ntwo\nthree\n"},
		{"web", corev1.PodLogOptions{TailLines: new(int64(1))}, "three\n"},
		{"web", corev1.PodLogOptions{LimitBytes: new(int64(5))}, "one\nt"},
		{"web", corev1.PodLogOptions{SinceSeconds: &since, Timestamps: true}, "one\ntwo\nthree\n"},
		{"web", corev1.PodLogOptions{Stream: new(corev1.LogStreamStderr)}, "two\n"},
		{"web", corev1.PodLogOptions{InsecureSkipTLSVerifyBackend: true, TailLines: new(int64(1))}, "three\n"},
		{"web", corev1.PodLogOptions{Previous: true}, `previous terminated container "main" in pod "web" not found`},
		{"crashes", corev1.PodLogOptions{}, "a container name must be specified for pod crashes, choose one of: [main other]"},
		{"crashes", corev1.PodLogOptions{Container: "main"}, "now\n"},
		{"crashes", corev1.PodLogOptions{Container: "main", Previous: true}, "before\n"},
		{"crashes", corev1.PodLogOptions{Container: "other"}, `container "other" in pod "crashes" is waiting to start: trying and failing to pull image`},
	} {
		got, err := c.log(t.Context(), tc.pod, &tc.opts)
		if err != nil {
			if got = err.Error(); !apierrors.IsBadRequest(err) {
				t.Errorf("%s %v: %v", tc.pod, tc.opts, err)
			}
		}
		if tc.opts.SinceSeconds != nil { // all is in the future or in the past, by the clock of this machine
			if future := time.Now().Before(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)); !future {
				tc.want = ""
			} else {
				tc.want = "2026-01-02T03:04:05.678901234Z one\n2026-01-02T03:04:05.678901234Z two\n2026-01-02T03:04:05.678901234Z three\n"
			}
		}
		if got != tc.want {
			t.Errorf("%s %v: got %q, want %q", tc.pod, tc.opts, got, tc.want)
		}
	}
	if _, err := c.log(t.Context(), "web", &corev1.PodLogOptions{Follow: true, LimitBytes: new(int64(4))}); err != nil {
		t.Errorf("follow up to a limit: %v", err)
	}
}

// TestLogs_Follow has many follow one log, over HTTP/2, until the container ends.
func TestLogs_Follow(t *testing.T) {
	c := start(t)
	c.node.append(t, "web-main", entry("stdout", "0"))
	const followers, lines = 100, 20
	var all, seen sync.WaitGroup
	seen.Add(followers)
	for range followers {
		all.Go(func() {
			stream, err := c.client.CoreV1().Pods("default").GetLogs("web", &corev1.PodLogOptions{Follow: true}).Stream(t.Context())
			if err != nil {
				t.Error(err)
				seen.Done()
				return
			}
			defer stream.Close()
			r := bufio.NewReader(stream)
			for i := range lines {
				if got, err := r.ReadString('\n'); err != nil || got != fmt.Sprintf("%d\n", i) {
					t.Errorf("line %d: got %q, %v", i, got, err)
				}
				if i == 0 {
					seen.Done()
				}
			}
			if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
				t.Errorf("after the end: %q, %v", rest, err)
			}
		})
	}
	seen.Wait()
	for i := 1; i < lines; i++ {
		c.node.append(t, "web-main", entry("stdout", fmt.Sprint(i)))
	}
	c.node.change("web", "main", func(s *corev1.ContainerStatus) {
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: s.ContainerID}}
	})
	all.Wait()
}

// TestKubelet_Certificate: the API server speaks only to kubelets that its authority has signed, and follows both sides' files.
func TestKubelet_Certificate(t *testing.T) {
	c := start(t)
	c.node.append(t, "web-main", entry("stdout", "one"))
	foreign, err := pki.NewAuthority("others", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	serving := pki.Subject{CommonName: "system:node:" + nodeName, IPs: localhost, Server: true}
	attempt := func() error {
		_, err := c.log(t.Context(), "web", &corev1.PodLogOptions{})
		return err
	}
	if err := attempt(); err != nil {
		t.Fatal(err)
	}
	c.issue(t, "kubelet", foreign, serving)
	eventually.Nil(t, "a new serving certificate", func() error {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(c.url, "https://"), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		defer conn.Close()
		if by := conn.ConnectionState().PeerCertificates[0].Issuer.CommonName; by != "others" {
			return fmt.Errorf("still one by %s", by)
		}
		return nil
	})
	c.write(t, "ca.crt", c.ca.CertPEM()) // looked at again, as something new
	eventually.Nil(t, "a stranger's certificate", func() error {
		if err := attempt(); err == nil || !strings.Contains(err.Error(), "x509: certificate signed by unknown authority") {
			return fmt.Errorf("it was taken: %w", errors.Join(err))
		}
		return nil
	})
	if got, err := c.log(t.Context(), "web", &corev1.PodLogOptions{InsecureSkipTLSVerifyBackend: true}); err != nil || got != "one\n" {
		t.Errorf("unchecked: %q, %v", got, err)
	}
	c.write(t, "ca.crt", foreign.CertPEM())
	eventually.Nil(t, "their authority", attempt)
}

// TestKubelet_Gone: what a client hears when nobody listens.
func TestKubelet_Gone(t *testing.T) {
	c := start(t)
	if err := c.stop(); err != nil {
		t.Fatal(err)
	}
	_, err := c.log(t.Context(), "web", &corev1.PodLogOptions{})
	if err == nil || !strings.Contains(err.Error(), "connect: connection refused") {
		t.Errorf("log: %v", err)
	}
	code, text := do(t, c.admin(t), "GET", c.URL+"/api/v1/nodes/"+nodeName+"/proxy/pods")
	if code != http.StatusServiceUnavailable || !strings.Contains(text, "error trying to reach service: dial tcp") {
		t.Errorf("proxy: %d %s", code, text)
	}
}
