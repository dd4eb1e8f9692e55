package namespace_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/controllers/internal/controllertest"
	"vigil/controllers/namespace"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

func start(t *testing.T) *controllertest.Env {
	env := controllertest.Start(t)
	c := namespace.New(namespace.Config{
		Client: env.Client, Metadata: env.Metadata, Informers: env.Informers, Logger: env.Logger, Settle: time.Millisecond,
	})
	env.Run(c.Run)
	return env
}

func conditions(ns *corev1.Namespace) map[corev1.NamespaceConditionType]string {
	m := map[corev1.NamespaceConditionType]string{}
	for _, c := range ns.Status.Conditions {
		m[c.Type] = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
	}
	return m
}

func namespaceGone(env *controllertest.Env, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		ns, err := env.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("%s is still there: %v %v", name, err, conditions(ns))
	}
}

// A namespace with a pod that is ending and a ConfigMap that a finalizer holds goes through what upstream's does: the pod
// first, then the rest, with conditions that say what is waited for.
func TestNamespace_Content(t *testing.T) {
	env := start(t)
	ctx, core := t.Context(), env.Client.CoreV1()
	env.Namespace("full")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "held", Finalizers: []string{"example.com/hold"}}}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(core.Nodes().Create(ctx, node, metav1.CreateOptions{}))
	must(core.Pods("full").Create(ctx, pod, metav1.CreateOptions{}))
	must(core.ConfigMaps("full").Create(ctx, held, metav1.CreateOptions{}))
	must(core.Secrets("full").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}, metav1.CreateOptions{}))
	must(nil, core.Namespaces().Delete(ctx, "full", metav1.DeleteOptions{}))

	waitFor := func(want map[corev1.NamespaceConditionType]string) {
		t.Helper()
		env.Eventually(func(ctx context.Context) error {
			ns, err := core.Namespaces().Get(ctx, "full", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for condition, text := range want {
				if have := conditions(ns)[condition]; have != text {
					return fmt.Errorf("%s is %q, want %q", condition, have, text)
				}
			}
			return nil
		})
	}
	waitFor(map[corev1.NamespaceConditionType]string{
		corev1.NamespaceDeletionDiscoveryFailure: "False ResourcesDiscovered: All resources successfully discovered",
		corev1.NamespaceDeletionGVParsingFailure: "False ParsedGroupVersions: All legacy kube types successfully parsed",
		corev1.NamespaceDeletionContentFailure:   "False ContentDeleted: All content successfully deleted, may be waiting on finalization",
		corev1.NamespaceContentRemaining:         "True SomeResourcesRemain: Some resources are remaining: pods. has 1 resource instances",
		corev1.NamespaceFinalizersRemaining:      "False ContentHasNoFinalizers: All content-preserving finalizers finished",
	})
	if cm, err := core.ConfigMaps("full").Get(ctx, "held", metav1.GetOptions{}); err != nil || cm.DeletionTimestamp != nil {
		t.Errorf("the config map is going before the pod has ended: %v, %v", cm, err)
	}
	must(nil, core.Pods("full").Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})) // as the kubelet does
	waitFor(map[corev1.NamespaceConditionType]string{
		corev1.NamespaceContentRemaining:    "True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances",
		corev1.NamespaceFinalizersRemaining: "True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
	})
	if _, err := core.Secrets("full").Get(ctx, "s", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the secret is still there: %v", err)
	}
	must(core.ConfigMaps("full").Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	env.Eventually(namespaceGone(env, "full"))
}

func TestNamespace_Empty(t *testing.T) {
	env := start(t)
	env.Namespace("empty")
	env.Namespace("alive")
	begin := time.Now()
	if err := env.Client.CoreV1().Namespaces().Delete(t.Context(), "empty", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(namespaceGone(env, "empty"))
	t.Logf("gone after %v", time.Since(begin))
	if ns, err := env.Client.CoreV1().Namespaces().Get(t.Context(), "alive", metav1.GetOptions{}); err != nil || ns.DeletionTimestamp != nil {
		t.Errorf("another namespace was touched: %v, %v", ns, err)
	}
}

// Somebody else's finalizer in spec.finalizers keeps the emptied namespace.
func TestNamespace_OtherFinalizer(t *testing.T) {
	env := start(t)
	ctx, namespaces := t.Context(), env.Client.CoreV1().Namespaces()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shared"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"example.com/mine"}}}
	if _, err := namespaces.Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := namespaces.Delete(ctx, "shared", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var left *corev1.Namespace
	env.Eventually(func(ctx context.Context) error {
		var err error
		if left, err = namespaces.Get(ctx, "shared", metav1.GetOptions{}); err != nil {
			return err
		}
		if len(left.Spec.Finalizers) != 1 {
			return errors.New(fmt.Sprint("finalizers ", left.Spec.Finalizers))
		}
		return nil
	})
	if c := conditions(left)[corev1.NamespaceContentRemaining]; c != "False ContentRemoved: All content successfully removed" {
		t.Errorf("condition NamespaceContentRemaining is %q", c)
	}
	left.Spec.Finalizers = nil
	if _, err := namespaces.Finalize(ctx, left, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(namespaceGone(env, "shared"))
}
