package localvolume

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const id = "0b6c9f0e-6a52-4a5e-9d3c-0d6f2f3a1b2c"

func TestNames(t *testing.T) {
	if got := Names("pvc-" + id + ",../etc,pvc-..,,pvc-" + id + "/x,pvc-{" + id + "}"); !slices.Equal(got, []string{"pvc-" + id}) {
		t.Errorf("names are %q", got)
	}
	if got := Annotation([]string{"b", "a"}); got != "a,b" {
		t.Errorf("annotation is %q", got)
	}
	if !IsName(Name(id)) {
		t.Error("a name that is made is none")
	}
}

func TestIn(t *testing.T) {
	pv := func(path, by string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: Name(id), Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": by}},
			Spec:       corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}},
		}
	}
	for _, test := range []struct {
		dir, path, by string
		want          bool
	}{
		{"/v", "/v/pvc-" + id, Provisioner, true},
		{"/v", "/v/pvc-" + id, "example.com/p", false},
		{"/v", "/v/other", Provisioner, false},
		{"/v", "/w/pvc-" + id, Provisioner, false},
		{"", "pvc-" + id, Provisioner, false},
	} {
		if got := In(test.dir, pv(test.path, test.by)); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
