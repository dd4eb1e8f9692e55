package plugins_test

import (
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/admission"
	"vigil/apiserver/admission/plugins"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authn"
)

// BenchmarkCreatePod is what the chain adds to the creation of a pod in a namespace without quotas and limits. The object is made
// anew each time, which is measured alone, too.
func BenchmarkCreatePod(b *testing.B) {
	s := apiservertest.Start(b)
	ctx := b.Context()
	client := s.Clientset()
	for _, err := range []error{
		second(client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})),
		second(client.CoreV1().ServiceAccounts("x").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})),
	} {
		if err != nil {
			b.Fatal(err)
		}
	}
	table, prefix := s.Table, s.Store.Prefix()
	stored := map[schema.GroupResource]*admission.Stored{}
	for _, k := range table.All() {
		if !k.Unstored && k.View == nil {
			stored[k.GroupResource()] = admission.NewStored(k, s.Cache(k))
		}
	}
	reader := admission.NewCaches(func(resource schema.GroupResource) *admission.Stored { return stored[resource] }, prefix, s.Store)
	on, err := plugins.New(plugins.Config{Enable: []string{"NodeRestriction"}, Reader: reader, Quotas: table.ByResource(corev1.SchemeGroupVersion.WithResource("resourcequotas")), Store: s.Store, Prefix: prefix})
	if err != nil {
		b.Fatal(err)
	}
	chain := admission.New(on, nil)
	kind := table.ByResource(corev1.SchemeGroupVersion.WithResource("pods"))
	plan := chain.Plan(kind)
	template := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "x"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	user := &authn.User{Name: "system:kube-controller-manager", Groups: []string{authn.GroupAuthenticated}}

	b.Run("object", func(b *testing.B) {
		defer reportCPU(b)()
		for b.Loop() {
			template.DeepCopy()
		}
	})
	b.Run("object and chain", func(b *testing.B) {
		defer reportCPU(b)()
		for b.Loop() {
			a := &admission.Attributes{
				Kind: kind, Namespace: "x", Name: "p", Operation: admission.Create, Object: template.DeepCopy(), User: user,
				Warn: func(string) {}, Annotate: func(string, string) {},
			}
			steps := plan.For("", admission.Create)
			if err := steps.Mutate(ctx, a); err != nil {
				b.Fatal(err)
			}
			if err := steps.Validate(ctx, a); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// reportCPU reports allocations and the processor time of the process, which does not grow when others share the machine.
func reportCPU(b *testing.B) (done func()) {
	b.ReportAllocs()
	used := func() int64 {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	return func() { b.ReportMetric(float64(used()-before)/float64(b.N), "cpu-ns/op") }
}

func second[T any](_ T, err error) error { return err }
