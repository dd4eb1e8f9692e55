package column

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSince(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for age, want := range map[time.Duration]string{
		90 * time.Second:     "90s",
		5*time.Minute + 3e9:  "5m3s",
		2 * time.Hour:        "120m",
		26 * time.Hour:       "26h",
		100 * 24 * time.Hour: "100d",
	} {
		if got := Since(metav1.NewTime(now.Add(-age)), now); got != want {
			t.Errorf("%v: %s, want %s", age, got, want)
		}
		if got := SinceMicro(metav1.NewMicroTime(now.Add(-age)), now); got != want {
			t.Errorf("%v in microseconds: %s, want %s", age, got, want)
		}
	}
	if got := Since(metav1.Time{}, now); got != Unknown {
		t.Errorf("zero time: %s", got)
	}
}

func TestContainers(t *testing.T) {
	names, images := Containers([]corev1.Container{{Name: "a", Image: "x"}, {Name: "b", Image: "y:1"}})
	if names != "a,b" || images != "x,y:1" {
		t.Errorf("%q %q", names, images)
	}
}

func TestColumns(t *testing.T) {
	if c := Wide(Integer("N", "d")); c.Priority != 1 || c.Type != "integer" || c.Name != "N" || c.Description != "d" {
		t.Errorf("%+v", c)
	}
	if c := Name(); c.Format != "name" || c.Description == "" {
		t.Errorf("%+v", c)
	}
}
