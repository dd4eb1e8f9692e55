// Package controllertest runs controllers in tests against a real API server: what they see and do goes over HTTPS to an
// embedded etcd and back.
package controllertest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"vigil/apiserver/apiservertest"
	"vigil/informer"
	"vigil/internal/eventually"
	"vigil/internal/leaktest"
)

// Env is an API server, and what controllers need to work with it.
type Env struct {
	Server    *rest.Config
	Client    kubernetes.Interface
	Metadata  metadata.Interface
	Informers *informer.Factory
	Recorder  record.EventRecorder
	Logger    *slog.Logger

	T testing.TB // the test that fails; subtests put themselves here
}

// Start starts an API server that has the namespaces default, kube-public and kube-node-lease. Everything ends with the test.
func Start(t testing.TB, options ...apiservertest.Option) *Env {
	t.Helper()
	s := apiservertest.Start(t, options...)
	config := s.Admin()
	config.WarningHandler = rest.NoWarnings{}
	e := &Env{Server: config, T: t, Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
	must := func(err error) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
	}
	client, err := kubernetes.NewForConfig(config)
	must(err)
	e.Client = client
	e.Metadata, err = metadata.NewForConfig(config)
	must(err)
	e.Informers, err = informer.NewFactory(config, informer.Config{Logger: e.Logger})
	must(err)
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
	t.Cleanup(events.Shutdown)
	e.Recorder = events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "test"})
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		e.Namespace(name)
	}
	return e
}

// Run runs the informers and controllers until the test ends or the returned function is called.
func (e *Env) Run(controllers ...func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for _, run := range append([]func(context.Context) error{e.Informers.Run}, controllers...) {
		group.Go(func() {
			if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				e.T.Errorf("controller: %v", err)
			}
		})
	}
	stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	e.T.Cleanup(stop)
	return stop
}

// Namespace makes a namespace.
func (e *Env) Namespace(name string) {
	e.T.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := e.Client.CoreV1().Namespaces().Create(e.T.Context(), ns, metav1.CreateOptions{}); err != nil {
		e.T.Fatal(err)
	}
}

// Eventually waits until check returns nil; an error says what is still missing.
func (e *Env) Eventually(check func(ctx context.Context) error) {
	e.T.Helper()
	eventually.Nil(e.T, "the API has what controllers should have made of it", func() error { return check(e.T.Context()) })
}

// HasEvent returns nil when there is an event about an object with a reason and a message that contains text.
func (e *Env) HasEvent(ctx context.Context, name, reason, text string) error {
	events, err := e.Client.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(events.Items, func(ev corev1.Event) bool {
		return ev.InvolvedObject.Name == name && ev.Reason == reason && strings.Contains(ev.Message, text)
	}) {
		return nil
	}
	return fmt.Errorf("no event %s about %s among %d", reason, name, len(events.Items))
}

// Main runs a package's tests and fails when goroutines of controllers or informers outlive them. Call it from TestMain.
func Main(m *testing.M) { leaktest.Main(m, "vigil/controllers", "vigil/informer") }

// For returns e for a subtest, which fails in its place.
func (e *Env) For(t testing.TB) *Env {
	sub := *e
	sub.T = t
	return &sub
}
