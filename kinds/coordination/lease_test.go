package coordination

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ptr[T any](v T) *T { return &v }

func TestLease_Validate(t *testing.T) {
	for name, tc := range map[string]struct {
		spec coordinationv1.LeaseSpec
		want []string
	}{
		"empty": {},
		"full":  {spec: coordinationv1.LeaseSpec{HolderIdentity: ptr("n"), LeaseDurationSeconds: ptr(int32(40)), LeaseTransitions: ptr(int32(0)), RenewTime: ptr(metav1.NowMicro())}},
		"numbers": {
			spec: coordinationv1.LeaseSpec{LeaseDurationSeconds: ptr(int32(0)), LeaseTransitions: ptr(int32(-1))},
			want: []string{
				"spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
				"spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
			},
		},
		"strategy known":     {spec: coordinationv1.LeaseSpec{Strategy: ptr(coordinationv1.OldestEmulationVersion), PreferredHolder: ptr("x")}},
		"strategy qualified": {spec: coordinationv1.LeaseSpec{Strategy: ptr(coordinationv1.CoordinatedLeaseStrategy("example.com/x"))}},
		"strategy unknown": {
			spec: coordinationv1.LeaseSpec{Strategy: ptr(coordinationv1.CoordinatedLeaseStrategy("x"))},
			want: []string{`spec.strategy.strategy: Unsupported value: "x": supported values: "OldestEmulationVersion"`},
		},
		"holder without strategy": {
			spec: coordinationv1.LeaseSpec{PreferredHolder: ptr("x")},
			want: []string{"spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range Lease().Validate(&coordinationv1.Lease{Spec: tc.spec}) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLease_Coordination: the fields of the gated feature are dropped unless they are stored.
func TestLease_Coordination(t *testing.T) {
	row := Lease()
	full := &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{Strategy: ptr(coordinationv1.OldestEmulationVersion), PreferredHolder: ptr("x")}}
	created := full.DeepCopy()
	row.PrepareCreate(created)
	if created.Spec.Strategy != nil || created.Spec.PreferredHolder != nil {
		t.Errorf("created: %+v", created.Spec)
	}
	updated := full.DeepCopy()
	row.PrepareUpdate(updated, full)
	if diff := cmp.Diff(full, updated); diff != "" {
		t.Errorf("updated (-want +got):\n%s", diff)
	}
}

func TestLease_Row(t *testing.T) {
	now := time.Now()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "n", CreationTimestamp: metav1.NewTime(now.Add(-time.Minute))},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr("n_1")},
	}
	if diff := cmp.Diff([]any{"n", "n_1", "60s"}, Lease().Row(lease, now)); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}
