package podspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValidateTemplate(t *testing.T) {
	for _, tc := range []struct {
		name, spec string
		meta       metav1.ObjectMeta
		want       []string
	}{
		{"image with space", `containers: [{name: c, image: " x"}]`, metav1.ObjectMeta{}, nil}, // from before the rule
		{"host network without host port", "hostNetwork: true\ncontainers: [{name: c, image: x, ports: [{containerPort: 80}]}]", metav1.ObjectMeta{}, nil},
		{"label", ``, metav1.ObjectMeta{Labels: map[string]string{"a": "b c"}},
			[]string{`spec.template.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		{"ephemeral container", `ephemeralContainers: [{name: e, image: x}]`, metav1.ObjectMeta{},
			[]string{`spec.template.spec.ephemeralContainers: Forbidden: ephemeral containers not allowed in pod template`}},
		{"mirror annotation", ``, metav1.ObjectMeta{Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"}},
			[]string{`spec.template.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set`}},
		{"deletion cost", ``, metav1.ObjectMeta{Annotations: map[string]string{corev1.PodDeletionCost: "1.5"}},
			[]string{`spec.template.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "1.5": must be a 32bit integer`}},
		{"tolerations of old", ``, metav1.ObjectMeta{Annotations: map[string]string{corev1.TolerationsAnnotationKey: `[{"key":"a","effect":"x"}]`}},
			[]string{`spec.template.annotations.scheduler.alpha.kubernetes.io/tolerations[0].effect: Unsupported value: "x": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},
		{"seccomp of old", ``, metav1.ObjectMeta{Annotations: map[string]string{corev1.SeccompPodAnnotationKey: "none"}},
			[]string{`spec.template.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "none": must be a valid seccomp profile`}},
		{"apparmor of old", ``, metav1.ObjectMeta{Annotations: map[string]string{"container.apparmor.security.beta.kubernetes.io/z": "x"}}, []string{
			`spec.template.annotations[container.apparmor.security.beta.kubernetes.io/z]: Invalid value: "z": container not found`,
			`spec.template.annotations[container.apparmor.security.beta.kubernetes.io/z]: Invalid value: "x": invalid AppArmor profile name: "x"`,
		}},
		{"annotation against field", `securityContext: {seccompProfile: {type: RuntimeDefault}, appArmorProfile: {type: Localhost, localhostProfile: b}}`,
			metav1.ObjectMeta{Annotations: map[string]string{
				corev1.SeccompPodAnnotationKey:                     "unconfined",
				"container.apparmor.security.beta.kubernetes.io/c": "localhost/a",
			}}, []string{
				`spec.template.spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match`,
				`spec.template.spec.containers[0].securityContext.appArmorProfile.localhostProfile: Forbidden: apparmor profile in annotation and field must match`,
			}},
		{"spread key in the selector", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchExpressions: [{key: app, operator: Exists}]}, matchLabelKeys: [app]}]`, metav1.ObjectMeta{},
			[]string{`spec.template.spec.topologySpreadConstraints[0].matchLabelKeys[0]: Invalid value: "app": exists in both matchLabelKeys and labelSelector`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			template := &corev1.PodTemplateSpec{ObjectMeta: tc.meta, Spec: newPod(t, tc.spec, ``).Spec}
			if tc.name == "host network without host port" {
				template.Spec.Containers[0].Ports[0].HostPort = 0 // which pods get by default
			}
			got := texts(ValidateTemplate(template, field.NewPath("spec", "template"), Options{}))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
