package quota

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	amount "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver/admission"
)

// TestPending: a booking is added to what a recalculation has not seen for as long as that may be, and no longer.
func TestPending(t *testing.T) {
	status := func(used int64) *corev1.ResourceQuota {
		q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
		q.Status.Used = corev1.ResourceList{corev1.ResourcePods: *amount.NewQuantity(used, amount.DecimalSI)}
		return q
	}
	for name, tc := range map[string]struct {
		then        func(*admission.Attributes)
		after       time.Duration
		found, want int64 // counted, and kept; 5 were shown before, two of them booked
	}{
		"under way":                     {func(*admission.Attributes) {}, time.Minute, 3, 5},
		"under way for too long":        {func(*admission.Attributes) {}, forgotten + time.Second, 3, 3},
		"stored a moment ago":           {func(a *admission.Attributes) { a.End(true) }, time.Second, 3, 5},
		"stored long ago":               {func(a *admission.Attributes) { a.End(true) }, settling + time.Second, 3, 3},
		"failed":                        {func(a *admission.Attributes) { a.End(false) }, 0, 3, 3},
		"others have gone meanwhile":    {func(*admission.Attributes) {}, time.Second, 1, 3},
		"no more than was shown before": {func(*admission.Attributes) {}, time.Second, 4, 5},
		"more than was shown before":    {func(*admission.Attributes) {}, time.Second, 6, 6},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, a := &namespace{}, &admission.Attributes{}
				two := status(2).Status.Used
				n.expect("q", []*booking{{attr: a, delta: two}})
				n.expect("another", []*booking{{attr: &admission.Attributes{}, delta: two}})
				n.forget(n.expect("q", []*booking{{attr: &admission.Attributes{}, delta: two}})) // a conflict: it is booked again
				tc.then(a)
				time.Sleep(tc.after)
				now := status(tc.found)
				n.keepPending(now, status(5))
				if have := now.Status.Used.Pods().Value(); have != tc.want {
					t.Errorf("%d are shown, want %d", have, tc.want)
				}
			})
		})
	}
}
