package nodetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"vigil/internal/eventually"
)

func hookGet(path string, scheme corev1.URIScheme, host string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Host: host, Path: path, Port: intstr.FromInt32(8080), Scheme: scheme}}
}

// remove deletes a pod with a grace, waits until it is gone, and returns how long that took.
func (n *Node) remove(name string, grace int64) time.Duration {
	n.t.Helper()
	began := time.Now()
	if err := n.Client.CoreV1().Pods("default").Delete(n.t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		n.t.Fatal(err)
	}
	eventually.Nil(n.t, name+" is gone", func() error {
		_, err := n.Client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.New("it is there")
	})
	return time.Since(began)
}

func TestHooks(t *testing.T) {
	node := Start(t, nil)
	witness := Pod("witness", "serve")
	node.Create(witness)
	at := node.Ready("witness")
	t.Run("exec", func(t *testing.T) {
		pod := Pod("exec", "serve")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
			PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"demo", "write", "/began", "yes"}}},
			PreStop:   &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"demo", "fetch", "http://" + at.Status.PodIP + ":8080/env?name=EXEC"}}},
		}
		node.Create(pod)
		if got := node.Exec(node.Ready("exec"), "cat", "/began"); strings.TrimSpace(got) != "yes" {
			t.Errorf("postStart wrote %q", got)
		}
		node.remove("exec", 30)
	})
	t.Run("httpGet", func(t *testing.T) {
		pod := Pod("http", "serve")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: hookGet("/log?text=bye-from-http", corev1.URISchemeHTTPS, at.Status.PodIP)} // the witness has no TLS
		node.Create(pod)
		node.Ready("http")
		node.remove("http", 30)
		node.Event("http", "LifecycleHTTPFallback", "request to HTTPS lifecycle hook "+at.Status.PodIP+":8080 got HTTP response, retry with HTTP succeeded")
	})
	t.Run("sleep", func(t *testing.T) {
		pod := Pod("sleep", "serve")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 2}}}
		node.Create(pod)
		node.Ready("sleep")
		if took := node.remove("sleep", 30); took < 2*time.Second {
			t.Errorf("it was gone after %v", took)
		}
	})
	t.Run("failures", func(t *testing.T) {
		pod := Pod("fails", "serve")
		pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"demo", "exit", "1"}}}}
		node.Create(pod)
		node.Event("fails", "FailedPostStartHook", "PostStartHook failed")
		node.Event("fails", "Killing", "FailedPostStartHook")
		stop := Pod("stop-fails", "serve")
		stop.Spec.TerminationGracePeriodSeconds = new(int64(30))
		stop.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"demo", "exit", "1"}}}}
		node.Create(stop)
		node.Ready("stop-fails")
		node.remove("stop-fails", 30)
		node.Event("stop-fails", "FailedPreStopHook", "PreStopHook failed")
	})
}
