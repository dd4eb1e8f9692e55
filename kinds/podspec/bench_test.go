package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// benchPod is a pod as a Deployment's pods are in practice: a main container with probes, a sidecar, a token volume.
const benchPod = `
serviceAccountName: web
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}]
affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: {labelSelector: {matchLabels: {app: web}}, topologyKey: kubernetes.io/hostname}}]}}
initContainers: [{name: mesh, image: "mesh:1", restartPolicy: Always, ports: [{containerPort: 15090}]}]
containers:
- name: web
  image: registry.example.com/team/web:1.2.3
  ports: [{name: http, containerPort: 8080}]
  env: [{name: A, value: x}, {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: KEY, valueFrom: {secretKeyRef: {name: s, key: k}}}]
  resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 256Mi}}
  livenessProbe: {httpGet: {path: /healthz, port: http}}
  readinessProbe: {httpGet: {path: /readyz, port: http}}
  volumeMounts: [{name: config, mountPath: /etc/web}, {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}]
volumes:
- {name: config, configMap: {name: web}}
- {name: token, projected: {sources: [{serviceAccountToken: {path: token}}, {configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}}]}}
`

func newBenchPod(b *testing.B) *corev1.Pod {
	b.Helper()
	pod := &corev1.Pod{}
	pod.Name, pod.Namespace = "web-5d78c9869d-abcde", "default"
	if err := yaml.UnmarshalStrict([]byte(benchPod), &pod.Spec); err != nil {
		b.Fatal(err)
	}
	DefaultPod(pod)
	if errs := ValidatePod(pod, Options{}); len(errs) > 0 {
		b.Fatal(errs)
	}
	return pod
}

func BenchmarkDefaultPod(b *testing.B) {
	pod := newBenchPod(b)
	b.ReportAllocs()
	for b.Loop() {
		DefaultPod(pod)
	}
}

func BenchmarkValidatePod(b *testing.B) {
	b.Run("create", func(b *testing.B) {
		pod := newBenchPod(b)
		b.ReportAllocs()
		for b.Loop() {
			if errs := ValidatePod(pod, Options{}); len(errs) > 0 {
				b.Fatal(errs)
			}
		}
	})
	b.Run("update", func(b *testing.B) {
		pod := newBenchPod(b)
		old := pod.DeepCopy()
		b.ReportAllocs()
		for b.Loop() {
			if errs := ValidatePod(pod, Options{Old: &old.Spec}); len(errs) > 0 {
				b.Fatal(errs)
			}
		}
	})
}
