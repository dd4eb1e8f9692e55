// Package controllertest runs controllers in tests against a real API server with a small kubelet that is easy to steer.
package controllertest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"vigil/apiserver/apiservertest"
	"vigil/informer"
)

// Cluster is an API server with what a controller's Config asks for.
type Cluster struct {
	Client    *kubernetes.Clientset
	Informers *informer.Factory
	Recorder  record.EventRecorder
	Logger    *slog.Logger
	Kubelet   *Kubelet

	// Refuse says which requests of Client fail with 403 and the text "refused", as a quota or a webhook would have it.
	// Nil: none.
	Refuse atomic.Pointer[func(*http.Request) bool]

	t testing.TB
}

// New starts an API server. Controllers are made next, then Run.
func New(t testing.TB) *Cluster {
	t.Helper()
	server := apiservertest.Start(t)
	logger := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	factory, err := informer.NewFactory(server.Admin(), informer.Config{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{Informers: factory, Logger: logger, t: t}
	config := server.Admin()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusing{c, next} })
	if c.Client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: c.Client.CoreV1().Events("")})
	t.Cleanup(events.Shutdown)
	c.Recorder = events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "test"})
	c.Kubelet = newKubelet(t, c.Client, factory)
	return c
}

type refusing struct {
	cluster *Cluster
	next    http.RoundTripper
}

func (r refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if refuse := r.cluster.Refuse.Load(); refuse == nil || !(*refuse)(request) {
		return r.next.RoundTrip(request)
	}
	const body = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"refused"}`
	return &http.Response{
		StatusCode: http.StatusForbidden, ProtoMajor: 1, ProtoMinor: 1, Request: request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}, nil
}

// Run runs controllers, the informers and the kubelet until the test ends.
func (c *Cluster) Run(controllers ...func(context.Context) error) {
	c.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	run := append([]func(context.Context) error{c.Informers.Run}, controllers...)
	done := make(chan error, len(run))
	for _, f := range run {
		go func() { done <- f(ctx) }()
	}
	c.t.Cleanup(func() {
		cancel()
		for range run {
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				c.t.Errorf("a controller ended: %v", err)
			}
		}
	})
}

// Namespace makes a namespace.
func (c *Cluster) Namespace(t testing.TB, name string) string {
	t.Helper()
	_, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// HasEvent waits for an event with a reason and a message about an object.
func (c *Cluster) HasEvent(t testing.TB, namespace, object, reason, message string) {
	t.Helper()
	Eventually(t, "event "+reason+": "+message, func() bool {
		events, err := c.Client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events.Items {
			if e.InvolvedObject.Name == object && e.Reason == reason && e.Message == message {
				return true
			}
		}
		return false
	})
}

// Eventually waits until something holds, and fails the test when it does not in time.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within 30 s", what)
		}
	}
}
