package managed

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"k8s.io/apimachinery/pkg/util/managedfields"

	"vigil/kinds"
)

var (
	seed  = flag.Int64("seed", time.Now().UnixNano(), "of the random objects")
	types = applyconfigurations.NewTypeConverter(scheme.Scheme)
)

func tracker(gvk schema.GroupVersionKind, sub string, reset ...string) *Tracker {
	return New(Config{
		GVK: gvk, Subresource: sub, Reset: reset,
		New: func() runtime.Object {
			obj, err := scheme.Scheme.New(gvk)
			if err != nil {
				panic(err)
			}
			return obj
		},
		Types: func() managedfields.TypeConverter { return types },
	})
}

// filler fills objects with values that come through JSON unchanged.
func filler(r *rand.Rand) *randfill.Filler {
	texts := []string{"", "a", "b", "TCP", "UDP", "x y", "<&>", "ü", `q"\`, "n/a.b"}
	return randfill.New().RandSource(r).NilChance(.5).NumElements(0, 3).MaxDepth(12).Funcs(
		func(s *string, c randfill.Continue) { *s = texts[c.Intn(len(texts))] },
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(int64(c.Intn(3)), 0) },
		func(t *metav1.MicroTime, c randfill.Continue) {
			*t = metav1.NewMicroTime(time.Unix(int64(c.Intn(3)), 0))
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(int64(c.Intn(3)), resource.DecimalSI)
		},
		func(i *intstr.IntOrString, c randfill.Continue) { *i = intstr.FromInt32(int32(c.Intn(3))) },
		func(e *runtime.RawExtension, c randfill.Continue) { e.Raw = []byte(fmt.Sprintf(`{"a":%d}`, c.Intn(2))) },
		func(i *int32, c randfill.Continue) { *i = int32(c.Intn(3)) },
		func(i *int64, c randfill.Continue) { *i = int64(c.Intn(3)) },
		func(e *[]metav1.ManagedFieldsEntry, c randfill.Continue) {},
		func(e *metav1.FieldsV1, c randfill.Continue) {},
	)
}

// mix puts some parts of from into the places of into.
func mix(r *rand.Rand, into, from reflect.Value) {
	switch into.Kind() {
	case reflect.Pointer:
		if !into.IsNil() && !from.IsNil() && r.Intn(4) > 0 {
			mix(r, into.Elem(), from.Elem())
		} else if r.Intn(3) == 0 {
			into.Set(from)
		}
	case reflect.Struct:
		if into.NumField() > 0 && !into.Field(0).CanSet() {
			into.Set(from)
			return
		}
		for i := range into.NumField() {
			if !into.Field(i).CanSet() {
				continue
			}
			switch r.Intn(6) {
			case 0:
				into.Field(i).Set(from.Field(i))
			case 1, 2:
				mix(r, into.Field(i), from.Field(i))
			}
		}
	case reflect.Slice:
		for i := 0; i < into.Len() && i < from.Len(); i++ {
			mix(r, into.Index(i), from.Index(i))
		}
	default:
		if r.Intn(2) == 0 {
			into.Set(from)
		}
	}
}

// shown is the managed fields without their times, which the library takes from the clock, and in an order without them.
func shown(t *testing.T, obj kinds.Object) string {
	t.Helper()
	entries := slices.Clone(obj.GetManagedFields())
	slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int { return strings.Compare(a.Manager, b.Manager) })
	for i := range entries {
		entries[i].Time = nil
	}
	data, err := json.MarshalIndent(entries, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The short way comes to the same as the library, for random objects of all kinds and random changes of them.
func TestUpdate_AsTheLibrary(t *testing.T) {
	t.Logf("seed %d", *seed)
	short, all, planned, planless := 0, 0, 0, []string{}
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if gvk.Version != "v1" && gvk.Version != "v2" || gvk.Group == "" && gvk.Kind == "SerializedReference" {
			continue
		}
		tr := tracker(gvk, "", "status")
		obj, err := scheme.Scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := obj.(kinds.Object); !ok {
			continue
		}
		if err := tr.load(); err != nil {
			t.Fatal(err)
		}
		if tr.plan == nil {
			planless = append(planless, gvk.String())
			continue
		}
		planned++
		r := rand.New(rand.NewSource(*seed))
		fill := filler(r)
		random := func() kinds.Object {
			obj := tr.Empty()
			fill.Fill(obj)
			obj.GetObjectKind().SetGroupVersionKind(gvk)
			obj.SetManagedFields(nil)
			return obj
		}
		for range 5 {
			var live kinds.Object
			next := random()
			for step := range 6 {
				manager := fmt.Sprint("m", r.Intn(3))
				want := next.DeepCopyObject().(kinds.Object)
				got := next.DeepCopyObject().(kinds.Object)
				var before kinds.Object
				if live != nil {
					before = live.DeepCopyObject().(kinds.Object)
				}
				if before == nil {
					before = tr.Empty()
				}
				if _, err := tr.manager.Update(before, want, manager); err != nil {
					break // list elements without keys: no valid object
				}
				all++
				if tr.fast(live, got, manager, time.Unix(0, 0)) {
					short++
					if g, w := shown(t, got), shown(t, want); g != w {
						l, _ := json.Marshal(live)
						n, _ := json.Marshal(next)
						t.Fatalf("%v step %d by %s: got\n%s\nwant\n%s\nfrom %s\nto   %s", gvk, step, manager, g, w, l, n)
					}
				}
				live = want
				if live.GetUID() == "" {
					live.SetUID("u")
				}
				next = live.DeepCopyObject().(kinds.Object)
				mix(r, reflect.ValueOf(next).Elem(), reflect.ValueOf(random()).Elem())
				next.GetObjectKind().SetGroupVersionKind(gvk)
				next.SetManagedFields(live.GetManagedFields())
			}
		}
	}
	t.Logf("%d kinds, %d of %d the short way, without plan: %v", planned, short, all, planless)
	if short < all/4 {
		t.Errorf("only %d of %d went the short way", short, all)
	}
}

func benchPod() *corev1.Pod {
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", Labels: map[string]string{"a": "b", "c": "d", "e": "f"},
			Annotations: map[string]string{"x": "y"}, OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "r", UID: "u"}}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "i", Args: []string{"x"}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
				Ports: []corev1.ContainerPort{{ContainerPort: 80, Protocol: "TCP"}}, VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/x"}},
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}},
			Tolerations:   []corev1.Toleration{{Key: "k"}},
			RestartPolicy: "Always", DNSPolicy: "ClusterFirst", SchedulerName: "default-scheduler",
			Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		},
		Status: corev1.PodStatus{Phase: "Running", Conditions: []corev1.PodCondition{{Type: "Ready", Status: "True"}, {Type: "PodScheduled", Status: "True"}}},
	}
}

func BenchmarkCreate(b *testing.B) {
	benchmark(b, "", []string{"status"}, func() (live, next kinds.Object) { return nil, benchPod() })
}

func BenchmarkUpdateStatus(b *testing.B) {
	live := benchPod()
	main, status := tracker(corev1.SchemeGroupVersion.WithKind("Pod"), "", "status"), tracker(corev1.SchemeGroupVersion.WithKind("Pod"), "status", "spec")
	main.Update(nil, live, "creator", time.Now())
	live.UID = "u"
	first := live.DeepCopy()
	first.Status = corev1.PodStatus{}
	status.Update(first, live, "kubelet", time.Now())
	benchmark(b, "status", []string{"spec"}, func() (_, next kinds.Object) {
		changed := live.DeepCopy()
		changed.Status.Conditions[0].Status = "False"
		return live, changed
	})
}

func benchmark(b *testing.B, sub string, reset []string, objects func() (live, next kinds.Object)) {
	tr := tracker(corev1.SchemeGroupVersion.WithKind("Pod"), sub, reset...)
	for _, way := range []string{"short", "library"} {
		b.Run(way, func(b *testing.B) {
			live, next := objects()
			entries := next.GetManagedFields()
			if err := tr.load(); err != nil {
				b.Fatal(err)
			}
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				next.SetManagedFields(entries)
				if way == "library" {
					tr.slow(live, next, "kubelet")
				} else if !tr.fast(live, next, "kubelet", now) {
					b.Fatal("not the short way")
				}
			}
		})
	}
}
