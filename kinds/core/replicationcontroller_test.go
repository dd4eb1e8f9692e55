package core

import (
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/podspec"
)

func template() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// controller is a minimal valid replication controller, changed.
func controller(change ...func(*corev1.ReplicationController)) *corev1.ReplicationController {
	t := template()
	rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Name: "rc", Namespace: "ns"}, Spec: corev1.ReplicationControllerSpec{Template: &t}}
	ReplicationController().Default(rc)
	for _, f := range change {
		f(rc)
	}
	return rc
}

func TestReplicationController_Defaults(t *testing.T) {
	completed := template()
	podspec.DefaultTemplate(&completed)
	labels := map[string]string{"app": "a"}
	wantSame(t, "defaults", &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "rc", Namespace: "ns", Labels: labels},
		Spec:       corev1.ReplicationControllerSpec{Replicas: ptr(int32(1)), Selector: labels, Template: &completed},
	}, controller())
}

func TestReplicationController_Validate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.ReplicationController)
		want   []string
	}{
		"minimal": {change: func(*corev1.ReplicationController) {}},
		"numbers": {
			change: func(rc *corev1.ReplicationController) {
				rc.Spec.MinReadySeconds, rc.Spec.Replicas = -1, ptr(int32(-2))
			},
			want: []string{
				"spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
				"spec.replicas: Invalid value: -2: must be greater than or equal to 0",
			},
		},
		"nothing": {
			change: func(rc *corev1.ReplicationController) { rc.Spec = corev1.ReplicationControllerSpec{} },
			want:   []string{"spec.selector: Required value", "spec.replicas: Required value", "spec.template: Required value"},
		},
		"selector": {
			change: func(rc *corev1.ReplicationController) { rc.Spec.Selector = map[string]string{"app": "b"} },
			want:   []string{"spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`"},
		},
		"pods that end": {
			change: func(rc *corev1.ReplicationController) {
				rc.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
				rc.Spec.Template.Spec.ActiveDeadlineSeconds = ptr(int64(1))
			},
			want: []string{
				`spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"`,
				"spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported",
			},
		},
		"template": {
			change: func(rc *corev1.ReplicationController) { rc.Spec.Template.Spec.Containers = nil },
			want:   []string{"spec.template.spec.containers: Required value"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantErrors(t, ReplicationController().Validate(controller(tc.change)), tc.want...)
			wantErrors(t, ReplicationController().ValidateUpdate(controller(tc.change), controller()), tc.want...)
		})
	}
}

func TestReplicationController_Status(t *testing.T) {
	rc := controller(func(rc *corev1.ReplicationController) {
		rc.Status = corev1.ReplicationControllerStatus{Replicas: 1, FullyLabeledReplicas: 2, ReadyReplicas: -1, AvailableReplicas: 1, ObservedGeneration: -1}
	})
	wantErrors(t, ReplicationController().Subresource("status").Validate(rc, rc),
		"status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than status.replicas",
		"status.readyReplicas: Invalid value: -1: must be greater than or equal to 0",
		"status.observedGeneration: Invalid value: -1: must be greater than or equal to 0",
		"status.availableReplicas: Invalid value: 1: cannot be greater than readyReplicas")
}

func TestReplicationController_Scale(t *testing.T) {
	sub := ReplicationController().Subresource("scale")
	rc := controller(func(rc *corev1.ReplicationController) { rc.Status.Replicas = 2 })
	view, err := sub.View(rc)
	if err != nil {
		t.Fatal(err)
	}
	scale := view.(*autoscalingv1.Scale)
	wantSame(t, "status", autoscalingv1.ScaleStatus{Replicas: 2, Selector: "app=a"}, scale.Status)
	scale.Spec.Replicas = 5
	wantErrors(t, sub.Apply(rc, scale))
	wantSame(t, "replicas", ptr(int32(5)), rc.Spec.Replicas)
	wantSame(t, "row", []any{"rc", int64(5), int64(2), int64(0), "<unknown>", "c", "i", "app=a"}, ReplicationController().Row(rc, time.Now()))
}

func TestPodTemplate(t *testing.T) {
	row, pt := PodTemplate(), &corev1.PodTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Template: template()}
	row.Default(pt)
	want := template()
	podspec.DefaultTemplate(&want)
	wantSame(t, "defaults", want, pt.Template)
	wantErrors(t, row.Validate(pt))
	wantSame(t, "row", []any{"t", "c", "i", "app=a"}, row.Row(pt, time.Now()))
	bad := pt.DeepCopy()
	bad.Template.Spec.Containers = nil
	wantErrors(t, row.Validate(bad), "template.spec.containers: Required value")
	wantErrors(t, row.ValidateUpdate(bad, pt), "template.spec.containers: Required value")
}
