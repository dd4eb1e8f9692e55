package podspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestWarningsForPod(t *testing.T) {
	for _, tc := range []struct {
		name, spec, container string
		annotations           map[string]string
		want                  []string
	}{
		{name: "nothing"},
		{name: "env twice", container: `env: [{name: A, value: x}, {name: A, value: y}]`,
			want: []string{`spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply`}},
		{name: "env that builds on itself", container: `env: [{name: A, value: x}, {name: A, value: $(A)y}]`},
		{name: "fractional bytes", container: `resources: {requests: {memory: 100m}}`,
			want: []string{`spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, must be an integer`}},
		{name: "port twice", container: `ports: [{containerPort: 80}, {containerPort: 80}]`,
			want: []string{`spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]`}},
		{name: "host port on one and all addresses", container: `ports: [{containerPort: 80, hostPort: 1}, {containerPort: 80, hostPort: 1, hostIP: 1.2.3.4}]`,
			want: []string{`spec.containers[0].ports[1]: dangerously ambiguous port definition with spec.containers[0].ports[0]`}},
		{name: "node label", spec: `nodeSelector: {beta.kubernetes.io/os: linux}`,
			want: []string{`spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead`}},
		{name: "topology key", spec: `topologySpreadConstraints: [{topologyKey: failure-domain.beta.kubernetes.io/zone}]`, want: []string{
			`spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
			`spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod`,
		}},
		{name: "host alias", spec: `hostAliases: [{ip: 1.1.1.1}, {ip: 1.1.1.1}]`, want: []string{`spec.hostAliases[1].ip: duplicate ip "1.1.1.1"`}},
		{name: "pull secret", spec: `imagePullSecrets: [{name: ""}]`, want: []string{`spec.imagePullSecrets[0].name: invalid empty name ""`}},
		{name: "grace period", spec: `terminationGracePeriodSeconds: -1`,
			want: []string{`spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`}},
		{name: "volume driver", spec: `volumes: [{name: a, gitRepo: {repository: r}}]`, want: []string{`spec.volumes[0].gitRepo: deprecated in v1.11`}},
		{name: "seccomp of old", annotations: map[string]string{corev1.SeccompPodAnnotationKey: "x"},
			want: []string{`metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the "seccompProfile" field instead`}},
		{name: "critical pod of old", annotations: map[string]string{"scheduler.alpha.kubernetes.io/critical-pod": ""},
			want: []string{`metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the "priorityClassName" field instead`}},
		{name: "file beside the token", spec: `volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: t}}, {secret: {name: s, items: [{key: k, path: t}]}}]}}]`,
			want: []string{`spec.volumes[0].projected.sources.secrets[0]: has duplicated path with ServiceAccountToken "t"`}},
		{name: "address spelling", spec: `hostAliases: [{ip: "FD00::1"}]`,
			want: []string{`spec.hostAliases[0].ip: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(t, tc.spec, tc.container)
			pod.Annotations = tc.annotations
			if diff := cmp.Diff(tc.want, WarningsForPod(pod)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWarningsForTemplate_Path(t *testing.T) {
	template := &corev1.PodTemplateSpec{Spec: newPod(t, `terminationGracePeriodSeconds: -1`, ``).Spec}
	want := []string{`spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1`}
	if diff := cmp.Diff(want, WarningsForTemplate(template, field.NewPath("spec", "template"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
