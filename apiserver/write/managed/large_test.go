package managed

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/kinds"
)

func bigMap(n int, value string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{Data: map[string]string{}}
	for i := range n {
		m.Data[fmt.Sprintf("k%05d", i)] = value
	}
	return m
}

// Objects with thousands of fields come to the same as in the library, whoever changes, adds and removes how many of them.
func TestUpdate_Large(t *testing.T) {
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewSource(*seed))
	value := func() string { return fmt.Sprint(r.Intn(3)) }
	for name, kind := range map[string]struct {
		gvk    string
		next   func() kinds.Object
		change func(kinds.Object)
	}{
		"map": {"ConfigMap", func() kinds.Object { return bigMap(2000, "a") }, func(obj kinds.Object) {
			data := obj.(*corev1.ConfigMap).Data
			for range r.Intn(3000) {
				key := fmt.Sprintf("k%05d", r.Intn(2500))
				if r.Intn(3) == 0 {
					delete(data, key)
				} else {
					data[key] = value()
				}
			}
		}},
		"list of lists": {"Pod", func() kinds.Object {
			pod := &corev1.Pod{}
			for i := range 60 {
				c := corev1.Container{Name: fmt.Sprint("c", i)}
				for j := range 30 {
					c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("E", j), Value: value()})
					c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: int32(j + 1), Protocol: "TCP"})
				}
				pod.Spec.Containers = append(pod.Spec.Containers, c)
			}
			return pod
		}, func(obj kinds.Object) {
			pod := obj.(*corev1.Pod)
			for range r.Intn(300) {
				c := &pod.Spec.Containers[r.Intn(len(pod.Spec.Containers))]
				switch at := r.Intn(30); r.Intn(5) {
				case 0:
					c.Image = value()
				case 1:
					if at < len(c.Env) {
						c.Env = append(c.Env[:at], c.Env[at+1:]...)
					}
				case 2:
					if at < len(c.Ports) {
						c.Ports[at].HostPort = int32(r.Intn(3))
					}
				default:
					if at < len(c.Env) {
						c.Env[at].Value = value()
					}
				}
			}
			if n := len(pod.Spec.Containers); r.Intn(2) == 0 && n > 5 {
				pod.Spec.Containers = append(pod.Spec.Containers[:3], pod.Spec.Containers[4:]...)
			}
		}},
		"distinct scalars": {"Pod", func() kinds.Object {
			pod := &corev1.Pod{}
			for i := range 1000 {
				pod.Finalizers = append(pod.Finalizers, fmt.Sprint("example.com/", i))
			}
			return pod
		}, func(obj kinds.Object) {
			pod := obj.(*corev1.Pod)
			for range r.Intn(500) {
				if at := r.Intn(1000); at < len(pod.Finalizers) {
					pod.Finalizers = append(pod.Finalizers[:at], pod.Finalizers[at+1:]...)
				}
			}
			for range r.Intn(50) {
				pod.Finalizers = append(pod.Finalizers, fmt.Sprint("example.com/", r.Int()))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			gvk := corev1.SchemeGroupVersion.WithKind(kind.gvk)
			tr := tracker(gvk, "", "status")
			var live kinds.Object
			next := kind.next()
			short := 0
			for step := range 15 {
				next.GetObjectKind().SetGroupVersionKind(gvk)
				manager := fmt.Sprint("m", r.Intn(4))
				want, got := next.DeepCopyObject().(kinds.Object), next.DeepCopyObject().(kinds.Object)
				before := tr.Empty()
				if live != nil {
					before = live.DeepCopyObject().(kinds.Object)
				}
				if err := tr.load(); err != nil {
					t.Fatal(err)
				}
				tr.manager.UpdateNoErrors(before, want, manager)
				if tr.fast(live, got, manager, time.Unix(0, 0)) {
					short++
					if g, w := shown(t, got), shown(t, want); g != w {
						t.Fatalf("step %d by %s: %d bytes that differ from the library's %d", step, manager, len(g), len(w))
					}
				}
				live = want
				live.SetUID("u")
				next = live.DeepCopyObject().(kinds.Object)
				kind.change(next)
			}
			if short < 10 {
				t.Errorf("only %d of 15 updates went the short way", short)
			}
		})
	}
}

// The short way stays short: it costs what the size says, where it once compared every key with every other.
func TestUpdate_LargeCost(t *testing.T) {
	const n = 16000
	tr := tracker(corev1.SchemeGroupVersion.WithKind("ConfigMap"), "")
	live := bigMap(n, "a")
	tr.Update(nil, live, "one", time.Unix(0, 0))
	live.UID = "u"
	for _, who := range []string{"one", "two"} {
		next := bigMap(n, "b")
		next.UID, next.ManagedFields = "u", live.ManagedFields
		start := time.Now()
		if !tr.fast(live, next, who, time.Unix(1, 0)) {
			t.Fatal("not the short way")
		}
		short := time.Since(start)
		next.ManagedFields = live.ManagedFields
		start = time.Now()
		tr.slow(live, next, who)
		library := time.Since(start)
		t.Logf("%d fields, all changed by %s: %v, the library takes %v", n, who, short, library)
		if short > 5*library {
			t.Errorf("%d fields, all changed by %s: %v, the library takes %v", n, who, short, library)
		}
	}
}
