package test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"vigil/internal/built"
	"vigil/internal/eventually"
)

// assets makes a directory as setup-envtest does: kube-apiserver and kubectl are links to vigil, etcd is the stock one.
func assets(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"kube-apiserver", "kubectl"} {
		if err := os.Symlink(built.Program(t), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "etcd"), ".")
	build.Dir = filepath.Join("..", "bench", "etcd")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build etcd: %v\n%s", err, output)
	}
	return dir
}

// TestEnvtest runs what a suite of controller-runtime runs, unmodified, over a kube-apiserver that is Vigil: the environment starts and
// stops it, a manager's controller reconciles, a user of the environment's may do what RBAC permits. Twice, as suites of several packages do.
func TestEnvtest(t *testing.T) {
	dir := assets(t)
	for _, run := range []string{"first", "second"} {
		t.Run(run, func(t *testing.T) {
			env := &envtest.Environment{BinaryAssetsDirectory: dir}
			config, err := env.Start()
			if err != nil {
				t.Fatalf("start: %v", err)
			}
			defer func() {
				if err := env.Stop(); err != nil {
					t.Errorf("stop: %v", err)
				}
			}()
			ctx, cancel := context.WithTimeout(t.Context(), eventually.Limit)
			defer cancel()

			// A controller that writes into a ConfigMap what it has seen. Its name may have been used by a run of this test before.
			onceMore := controller.Options{SkipNameValidation: new(true)}
			m, err := manager.New(config, manager.Options{Metrics: server.Options{BindAddress: "0"}})
			if err != nil {
				t.Fatal(err)
			}
			err = builder.ControllerManagedBy(m).Named("seen-" + run).For(&corev1.ConfigMap{}).WithOptions(onceMore).Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
				var cm corev1.ConfigMap
				if err := m.GetClient().Get(ctx, r.NamespacedName, &cm); err != nil {
					return reconcile.Result{}, client.IgnoreNotFound(err)
				}
				if cm.Namespace != "suite" || cm.Labels["seen"] == "yes" {
					return reconcile.Result{}, nil
				}
				before := cm.DeepCopy()
				cm.Labels = map[string]string{"seen": "yes"}
				return reconcile.Result{}, m.GetClient().Patch(ctx, &cm, client.MergeFrom(before))
			}))
			if err != nil {
				t.Fatal(err)
			}
			running, stop := context.WithCancel(ctx)
			done := make(chan error, 1)
			go func() { done <- m.Start(running) }()
			defer func() {
				stop()
				if err := <-done; err != nil {
					t.Errorf("manager: %v", err)
				}
			}()

			c, err := client.New(config, client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "suite"}}); err != nil {
				t.Fatal(err)
			}
			if err := c.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "suite", Name: "c"}}); err != nil {
				t.Fatal(err)
			}
			eventually.True(t, "the controller labels the ConfigMap", func() bool {
				var cm corev1.ConfigMap
				if err := c.Get(ctx, types.NamespacedName{Namespace: "suite", Name: "c"}, &cm); err != nil {
					t.Fatal(err)
				}
				return cm.Labels["seen"] == "yes"
			})

			// A further user has no rights, and kubectl speaks for it.
			user, err := env.AddUser(envtest.User{Name: "someone", Groups: []string{"somebody"}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := client.New(user.Config(), client.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := theirs.List(ctx, &corev1.SecretList{}); !apierrors.IsForbidden(err) {
				t.Errorf("a user without roles lists secrets: %v", err)
			}
			kubectl, err := user.Kubectl()
			if err != nil {
				t.Fatal(err)
			}
			stdout, _, err := kubectl.Run("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")
			if err != nil {
				t.Fatal(err)
			}
			var who [32]byte
			n, _ := stdout.Read(who[:])
			if got := string(who[:n]); got != "someone" {
				t.Errorf("kubectl auth whoami says %q", got)
			}
		})
	}
}
