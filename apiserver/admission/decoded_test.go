package admission

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/object"
)

// What is asked for again and again stays decoded; what is not is forgotten within two generations, also when nobody asks for anything.
func TestDecodedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d decodedObjects
		used, unused := new(object.Version), new(object.Version)
		d.put(used, &corev1.Node{})
		d.put(unused, &corev1.Pod{})
		for range 10 {
			time.Sleep(generationLife / 2)
			synctest.Wait()
			if _, ok := d.get(used); !ok {
				t.Fatal("forgotten although it was asked for")
			}
		}
		if _, ok := d.get(unused); ok {
			t.Error("kept although nobody asked for it")
		}
		time.Sleep(2*generationLife + time.Second)
		synctest.Wait()
		if d.younger != nil || d.elder != nil || d.ticking {
			t.Errorf("%d and %d objects are kept for nobody, ticking %v", len(d.younger), len(d.elder), d.ticking)
		}
	})
}

// Many objects at once do not push out what is asked for between them, and at most two generations are kept.
func TestDecodedObjects_Many(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d decodedObjects
		used := new(object.Version)
		d.put(used, &corev1.Node{})
		for i := range 5 * generationMost {
			d.put(new(object.Version), &corev1.Pod{})
			if _, ok := d.get(used); !ok {
				t.Fatalf("forgotten after %d others", i+1)
			}
			if n := len(d.younger) + len(d.elder); n > 2*generationMost {
				t.Fatalf("%d objects are kept", n)
			}
		}
		time.Sleep(3 * generationLife) // the timers end with the test
	})
}
