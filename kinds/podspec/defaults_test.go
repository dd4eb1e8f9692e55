package podspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func toYAML(t *testing.T, v any) string {
	t.Helper()
	out, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestDefaultPod_Minimal(t *testing.T) {
	pod := newPod(t, ``, ``)
	const want = `containers:
- image: image:1
  imagePullPolicy: IfNotPresent
  name: c
  resources: {}
  terminationMessagePath: /dev/termination-log
  terminationMessagePolicy: File
dnsPolicy: ClusterFirst
enableServiceLinks: true
restartPolicy: Always
schedulerName: default-scheduler
securityContext: {}
terminationGracePeriodSeconds: 30
`
	if diff := cmp.Diff(want, toYAML(t, pod.Spec)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Templates leave to their pods what the pods can find out themselves.
func TestDefaultTemplate_LeavesToPods(t *testing.T) {
	template := &corev1.PodTemplateSpec{}
	unmarshal(t, `
hostNetwork: true
containers: [{name: c, image: x, ports: [{containerPort: 80}], resources: {limits: {cpu: 1}}}]`, &template.Spec)
	DefaultTemplate(template)
	const want = `containers:
- image: x
  imagePullPolicy: Always
  name: c
  ports:
  - containerPort: 80
    protocol: TCP
  resources:
    limits:
      cpu: "1"
  terminationMessagePath: /dev/termination-log
  terminationMessagePolicy: File
dnsPolicy: ClusterFirst
hostNetwork: true
restartPolicy: Always
schedulerName: default-scheduler
securityContext: {}
terminationGracePeriodSeconds: 30
`
	if diff := cmp.Diff(want, toYAML(t, template.Spec)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDefaultPod_Everything(t *testing.T) {
	pod := newPod(t, `
serviceAccount: sa
hostNetwork: true
overhead: {cpu: 0.0001}
volumes:
- {name: none}
- {name: secret, secret: {secretName: s}}
- {name: config, configMap: {name: m, defaultMode: 0}}
- {name: downward, downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.name}}]}}
- {name: projected, projected: {sources: [{serviceAccountToken: {path: t}}, {downwardAPI: {items: [{path: p, fieldRef: {fieldPath: metadata.name}}]}}]}}
- {name: host, hostPath: {path: /x}}
- {name: claim, ephemeral: {volumeClaimTemplate: {spec: {}}}}
- {name: image, image: {reference: x@sha256:0123456789012345678901234567890123456789012345678901234567890123}}
- {name: iscsi, iscsi: {targetPortal: t, iqn: i, lun: 0}}
- {name: rbd, rbd: {monitors: [m], image: i}}
- {name: azure, azureDisk: {diskName: d, diskURI: u}}
- {name: scaleio, scaleIO: {gateway: g, system: s, secretRef: {name: s}}}
`, `
ports: [{containerPort: 80}]
env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: B, valueFrom: {fileKeyRef: {volumeName: none, path: f, key: K}}}]
resources: {limits: {cpu: 0.5, memory: 1Gi}, requests: {cpu: 0.1005}}
livenessProbe: {httpGet: {port: 80}}
readinessProbe: {grpc: {port: 80}, failureThreshold: 7}
lifecycle: {preStop: {httpGet: {port: 80}}}`)
	const want = `containers:
- env:
  - name: A
    valueFrom:
      fieldRef:
        apiVersion: v1
        fieldPath: metadata.name
  - name: B
    valueFrom:
      fileKeyRef:
        key: K
        optional: false
        path: f
        volumeName: none
  image: image:1
  imagePullPolicy: IfNotPresent
  lifecycle:
    preStop:
      httpGet:
        path: /
        port: 80
        scheme: HTTP
  livenessProbe:
    failureThreshold: 3
    httpGet:
      path: /
      port: 80
      scheme: HTTP
    periodSeconds: 10
    successThreshold: 1
    timeoutSeconds: 1
  name: c
  ports:
  - containerPort: 80
    hostPort: 80
    protocol: TCP
  readinessProbe:
    failureThreshold: 7
    grpc:
      port: 80
      service: ""
    periodSeconds: 10
    successThreshold: 1
    timeoutSeconds: 1
  resources:
    limits:
      cpu: 500m
      memory: 1Gi
    requests:
      cpu: 101m
      memory: 1Gi
  terminationMessagePath: /dev/termination-log
  terminationMessagePolicy: File
dnsPolicy: ClusterFirst
enableServiceLinks: true
hostNetwork: true
overhead:
  cpu: 1m
restartPolicy: Always
schedulerName: default-scheduler
securityContext: {}
serviceAccount: sa
serviceAccountName: sa
terminationGracePeriodSeconds: 30
volumes:
- emptyDir: {}
  name: none
- name: secret
  secret:
    defaultMode: 420
    secretName: s
- configMap:
    defaultMode: 0
    name: m
  name: config
- downwardAPI:
    defaultMode: 420
    items:
    - fieldRef:
        apiVersion: v1
        fieldPath: metadata.name
      path: p
  name: downward
- name: projected
  projected:
    defaultMode: 420
    sources:
    - serviceAccountToken:
        expirationSeconds: 3600
        path: t
    - downwardAPI:
        items:
        - fieldRef:
            apiVersion: v1
            fieldPath: metadata.name
          path: p
- hostPath:
    path: /x
    type: ""
  name: host
- ephemeral:
    volumeClaimTemplate:
      metadata: {}
      spec:
        resources: {}
        volumeMode: Filesystem
  name: claim
- image:
    pullPolicy: IfNotPresent
    reference: x@sha256:0123456789012345678901234567890123456789012345678901234567890123
  name: image
- iscsi:
    iqn: i
    iscsiInterface: default
    lun: 0
    targetPortal: t
  name: iscsi
- name: rbd
  rbd:
    image: i
    keyring: /etc/ceph/keyring
    monitors:
    - m
    pool: rbd
    user: admin
- azureDisk:
    cachingMode: ReadWrite
    diskName: d
    diskURI: u
    fsType: ext4
    kind: Shared
    readOnly: false
  name: azure
- name: scaleio
  scaleIO:
    fsType: xfs
    gateway: g
    secretRef:
      name: s
    storageMode: ThinProvisioned
    system: s
`
	if diff := cmp.Diff(want, toYAML(t, pod.Spec)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	before := toYAML(t, pod)
	DefaultPod(pod)
	if diff := cmp.Diff(before, toYAML(t, pod)); diff != "" {
		t.Errorf("a second time changes more (-first +second):\n%s", diff)
	}
}

func TestPullPolicy(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"nginx":                 corev1.PullAlways,
		"nginx:latest":          corev1.PullAlways,
		"nginx:1.29":            corev1.PullIfNotPresent,
		"registry:5000/nginx":   corev1.PullAlways,
		"registry:5000/nginx:1": corev1.PullIfNotPresent,
		"nginx@sha256:" + strings.Repeat("0", 64):        corev1.PullIfNotPresent,
		"nginx:latest@sha256:" + strings.Repeat("0", 64): corev1.PullAlways,
		"Not An Image": corev1.PullIfNotPresent,
		"":             corev1.PullIfNotPresent,
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("pullPolicy(%q) = %s, want %s", image, got, want)
		}
	}
}

func TestDefaultPod_PodLevelResources(t *testing.T) {
	for _, tc := range []struct{ name, spec, container, want string }{
		{"requests from containers", `resources: {limits: {cpu: 2}}`, `resources: {requests: {cpu: 500m}}`, "limits:\n  cpu: \"2\"\nrequests:\n  cpu: 500m\n"},
		{"requests from the pod's limits", `resources: {limits: {cpu: 2}}`, ``, "limits:\n  cpu: \"2\"\nrequests:\n  cpu: \"2\"\n"},
		{"huge pages from containers", `resources: {requests: {cpu: 1}}`, `resources: {limits: {hugepages-2Mi: 4Mi, cpu: 1}}`,
			"limits:\n  hugepages-2Mi: 4Mi\nrequests:\n  cpu: \"1\"\n  hugepages-2Mi: 4Mi\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, toYAML(t, newPod(t, tc.spec, tc.container).Spec.Resources)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultPod_IPs(t *testing.T) {
	for _, tc := range []struct{ in, want corev1.PodStatus }{
		{corev1.PodStatus{PodIP: "10.0.0.1"}, corev1.PodStatus{PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}},
		{corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}}, corev1.PodStatus{PodIP: "10.0.0.1", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}}},
		{corev1.PodStatus{PodIP: "10.0.0.2", PodIPs: []corev1.PodIP{{IP: "10.0.0.1"}}}, corev1.PodStatus{PodIP: "10.0.0.2", PodIPs: []corev1.PodIP{{IP: "10.0.0.2"}}}},
	} {
		got := &corev1.Pod{Status: tc.in}
		DefaultPod(got)
		if diff := cmp.Diff(tc.want, got.Status); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", tc.in, diff)
		}
	}
}

func TestDefaultPod_DropsLegacyAnnotations(t *testing.T) {
	pod := newPod(t, ``, ``)
	pod.Annotations = map[string]string{"pod.beta.kubernetes.io/init-containers": "[]", "x": "y"}
	DefaultPod(pod)
	if diff := cmp.Diff(map[string]string{"x": "y"}, pod.Annotations); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestQOSClass(t *testing.T) {
	for _, tc := range []struct {
		name, spec, container string
		want                  corev1.PodQOSClass
	}{
		{"nothing", ``, ``, corev1.PodQOSBestEffort},
		{"limits only", ``, `resources: {limits: {cpu: 1, memory: 1Gi}}`, corev1.PodQOSGuaranteed},
		{"lower request", ``, `resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 100m}}`, corev1.PodQOSBurstable},
		{"cpu only", ``, `resources: {limits: {cpu: 1}}`, corev1.PodQOSBurstable},
		{"devices only", ``, `resources: {limits: {example.com/x: 1}}`, corev1.PodQOSBestEffort},
		{"zero", ``, `resources: {requests: {cpu: 0}}`, corev1.PodQOSBestEffort},
		{"one of two containers", `containers: [{name: a, image: x, resources: {limits: {cpu: 1, memory: 1Gi}}}, {name: b, image: x}]`, ``, corev1.PodQOSBurstable},
		{"init container without", `initContainers: [{name: i, image: x}]`, `resources: {limits: {cpu: 1, memory: 1Gi}}`, corev1.PodQOSBurstable},
		{"pod level", `resources: {limits: {cpu: 1, memory: 1Gi}}`, ``, corev1.PodQOSGuaranteed},
	} {
		if got := QOSClass(&newPod(t, tc.spec, tc.container).Spec); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}
