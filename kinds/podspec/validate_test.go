package podspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// newPod returns a valid pod with defaults, changed by YAML: spec over the pod's spec, container over its only container.
func newPod(t *testing.T, spec, container string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Labels: map[string]string{"app": "web"}}}
	unmarshal(t, spec, &pod.Spec)
	if pod.Spec.Containers == nil {
		c := corev1.Container{Name: "c", Image: "image:1"}
		unmarshal(t, container, &c)
		pod.Spec.Containers = []corev1.Container{c}
	}
	DefaultPod(pod)
	return pod
}

func unmarshal(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
}

func texts(errs field.ErrorList) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

// dnsLabel is the end of the error on a name that is no DNS-1123 label.
const dnsLabel = `: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`

const dnsSubdomain = `: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`

// rule is a broken rule of pod specs: what breaks it, and the errors that say so.
type rule struct {
	name, spec, container string
	want                  []string
}

func TestValidatePod(t *testing.T) {
	for group, rules := range map[string][]rule{
		"containers": containerRules,
		"env":        envRules,
		"mounts":     mountRules,
		"probes":     probeRules,
		"volumes":    volumeRules,
		"resources":  resourceRules,
		"scheduling": schedulingRules,
		"security":   securityRules,
		"hosts":      hostRules,
	} {
		for _, r := range rules {
			t.Run(group+"/"+strings.ReplaceAll(r.name, " ", "_"), func(t *testing.T) {
				pod := newPod(t, r.spec, r.container)
				if diff := cmp.Diff(r.want, texts(ValidatePod(pod, Options{}))); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		}
	}
}

var containerRules = []rule{
	{name: "minimal"},
	{"no containers", `containers: []`, ``, []string{`spec.containers: Required value`}},
	{"container name missing", `containers: [{image: a}]`, ``, []string{`spec.containers[0].name: Required value`}},
	{"container name", ``, `name: A_b`, []string{`spec.containers[0].name: Invalid value: "A_b"` + dnsLabel}},
	{"container names", `containers: [{name: a, image: x}, {name: a, image: x}]`, ``, []string{`spec.containers[1].name: Duplicate value: "a"`}},
	{"name of init container taken", "containers: [{name: a, image: x}]\ninitContainers: [{name: a, image: x}]", ``,
		[]string{`spec.initContainers[0].name: Duplicate value: "a"`}},
	{"image missing", ``, `image: ""`, []string{`spec.containers[0].image: Required value`}},
	{"image with space", ``, `image: " x:1"`, []string{`spec.containers[0].image: Invalid value: " x:1": must not have leading or trailing whitespace`}},
	{"pull policy", ``, `imagePullPolicy: Sometimes`,
		[]string{`spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"`}},
	{"termination message policy", ``, `terminationMessagePolicy: Log`,
		[]string{`spec.containers[0].terminationMessagePolicy: Unsupported value: "Log": supported values: "File", "FallbackToLogsOnError"`}},
	{"restart policy", `restartPolicy: Maybe`, ``,
		[]string{`spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"`}},
	{"restart policy of a container", ``, `restartPolicy: Sometimes`,
		[]string{`spec.containers[0].restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"`}},
	{"restart rules without policy", ``, `restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]`,
		[]string{`spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used`}},
	{"restart rules", ``, "restartPolicy: Never\nrestartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]", nil},
	{"plain init container with probe", `initContainers: [{name: i, image: x, livenessProbe: {exec: {command: [a]}}}]`, ``,
		[]string{`spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always`}},
	{"plain init container with lifecycle", `initContainers: [{name: i, image: x, lifecycle: {preStop: {exec: {command: [a]}}}}]`, ``,
		[]string{`spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always`}},
	{"sidecar with probe", `initContainers: [{name: i, image: x, restartPolicy: Always, readinessProbe: {exec: {command: [a]}}}]`, ``, nil},
	{"port missing", ``, `ports: [{name: http}]`, []string{`spec.containers[0].ports[0].containerPort: Required value`}},
	{"port number", ``, `ports: [{containerPort: 70000}]`,
		[]string{`spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive`}},
	{"host port number", ``, `ports: [{containerPort: 80, hostPort: -1}]`,
		[]string{`spec.containers[0].ports[0].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive`}},
	{"port protocol", ``, `ports: [{containerPort: 80, protocol: tcp}]`,
		[]string{`spec.containers[0].ports[0].protocol: Unsupported value: "tcp": supported values: "SCTP", "TCP", "UDP"`}},
	{"port name", ``, `ports: [{containerPort: 80, name: a-name-that-is-too-long}]`,
		[]string{`spec.containers[0].ports[0].name: Invalid value: "a-name-that-is-too-long": must be no more than 15 characters`}},
	{"port names", ``, `ports: [{containerPort: 80, name: a}, {containerPort: 81, name: a}]`,
		[]string{`spec.containers[0].ports[1].name: Duplicate value: "a"`}},
	{"host ports", `containers: [{name: a, image: x, ports: [{containerPort: 80, hostPort: 8080}]}, {name: b, image: x, ports: [{containerPort: 81, hostPort: 8080}]}]`, ``,
		[]string{`spec.containers[1].ports[0].hostPort: Duplicate value: "TCP//8080"`}},
	{"host network ports", `hostNetwork: true`, `ports: [{containerPort: 80, hostPort: 8080}]`,
		[]string{"spec.containers[0].ports[0].hostPort: Invalid value: 8080: must match `containerPort` when `hostNetwork` is true"}},
	{"ephemeral container with ports", `ephemeralContainers: [{name: d, image: x, ports: [{containerPort: 80}]}]`, ``,
		[]string{`spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container`}},
	{"ephemeral container with resources", `ephemeralContainers: [{name: d, image: x, resources: {limits: {cpu: 1}}}]`, ``,
		[]string{`spec.ephemeralContainers[0].resources: Forbidden: cannot be set for an Ephemeral Container`}},
	{"ephemeral container with target", `ephemeralContainers: [{name: d, image: x, targetContainerName: c}]`, ``, nil},
	{"ephemeral container's target missing", `ephemeralContainers: [{name: d, image: x, targetContainerName: z}]`, ``,
		[]string{`spec.ephemeralContainers[0].targetContainerName: Not found: "z"`}},
	{"name of ephemeral container taken", `ephemeralContainers: [{name: c, image: x}]`, ``,
		[]string{`spec.ephemeralContainers[0].name: Duplicate value: "c"`}},
}

var envRules = []rule{
	{"all sources", ``, `
env:
- {name: A, value: x}
- {name: B, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
- {name: C, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
- {name: D, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}
- {name: E, valueFrom: {configMapKeyRef: {name: m, key: k}}}
- {name: F, valueFrom: {secretKeyRef: {name: s, key: k}}}
envFrom: [{prefix: P_, configMapRef: {name: m}}, {secretRef: {name: s}}]`, nil},
	{"name missing", ``, `env: [{value: x}]`, []string{`spec.containers[0].env[0].name: Required value`}},
	{"name with equals sign", ``, `env: [{name: "a=b"}]`,
		[]string{`spec.containers[0].env[0].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='`}},
	{"no source", ``, `env: [{name: A, valueFrom: {}}]`,
		[]string{"spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"}},
	{"value and source", ``, `env: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]`,
		[]string{"spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"}},
	{"two sources", ``, `env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nodeName}, secretKeyRef: {name: s, key: k}}}]`,
		[]string{`spec.containers[0].env[0].valueFrom: Invalid value: "": may not have more than one field specified at a time`}},
	{"field of no pod", ``, `env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.foo}}}]`,
		[]string{`spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.foo": error converting fieldPath: field label not supported: spec.foo`}},
	{"field of a pod that is not for env", ``, `env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}]`,
		[]string{`spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"`}},
	{"resource", ``, `env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.disk}}}]`,
		[]string{`spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.disk": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"`}},
	{"cpu divisor", ``, `env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1Mi}}}]`,
		[]string{`spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource`}},
	{"memory divisor", ``, `env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 2}}}]`,
		[]string{`spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.memory": only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource`}},
	{"key missing", ``, `env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]`,
		[]string{`spec.containers[0].env[0].valueFrom.secretKeyRef.key: Required value`}},
	{"file key in wrong volume", `volumes: [{name: v, hostPath: {path: /x}}]`, `env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: f, key: K}}}]`,
		[]string{`spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "v": referenced volume must be of type emptyDir`}},
	{"no source of envFrom", ``, `envFrom: [{prefix: A}]`,
		[]string{"spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"}},
	{"two sources of envFrom", ``, `envFrom: [{configMapRef: {name: m}, secretRef: {name: s}}]`,
		[]string{`spec.containers[0].envFrom: Invalid value: "": may not have more than one field specified at a time`}},
	{"name of envFrom missing", ``, `envFrom: [{configMapRef: {}}]`, []string{`spec.containers[0].envFrom[0].configMapRef.name: Required value`}},
}

const claimVolume = `volumes: [{name: v, persistentVolumeClaim: {claimName: x}}, {name: e}]`

var mountRules = []rule{
	{"mount and device", claimVolume, "volumeMounts: [{name: e, mountPath: /e, subPath: a/b}]\nvolumeDevices: [{name: v, devicePath: /dev/x}]", nil},
	{"unknown volume", ``, `volumeMounts: [{name: v, mountPath: /a}]`, []string{`spec.containers[0].volumeMounts[0].name: Not found: "v"`}},
	{"no name", ``, `volumeMounts: [{mountPath: /a}]`,
		[]string{`spec.containers[0].volumeMounts[0].name: Required value`, `spec.containers[0].volumeMounts[0].name: Not found: ""`}},
	{"no path", claimVolume, `volumeMounts: [{name: e}]`, []string{`spec.containers[0].volumeMounts[0].mountPath: Required value`}},
	{"path twice", claimVolume, `volumeMounts: [{name: e, mountPath: /a}, {name: v, mountPath: /a}]`,
		[]string{`spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique`}},
	{"also a device", claimVolume, "volumeMounts: [{name: v, mountPath: /a}]\nvolumeDevices: [{name: v, devicePath: /b}]", []string{
		`spec.containers[0].volumeMounts[0].name: Invalid value: "v": must not already exist in volumeDevices`,
		`spec.containers[0].volumeDevices[0].name: Invalid value: "v": must not already exist in volumeMounts`,
	}},
	{"absolute sub-path", claimVolume, `volumeMounts: [{name: e, mountPath: /a, subPath: /b}]`,
		[]string{`spec.containers[0].volumeMounts.subPath: Invalid value: "/b": must be a relative path`}},
	{"sub-path that climbs", claimVolume, `volumeMounts: [{name: e, mountPath: /a, subPath: b/../..}]`,
		[]string{`spec.containers[0].volumeMounts.subPath: Invalid value: "b/../..": must not contain '..'`}},
	{"two sub-paths", claimVolume, `volumeMounts: [{name: e, mountPath: /a, subPath: b, subPathExpr: c}]`,
		[]string{`spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: "c": subPathExpr and subPath are mutually exclusive`}},
	{"propagation", claimVolume, `volumeMounts: [{name: e, mountPath: /a, mountPropagation: Both}]`,
		[]string{`spec.containers[0].volumeMounts.mountPropagation: Unsupported value: "Both": supported values: "Bidirectional", "HostToContainer", "None"`}},
	{"propagation without privileges", claimVolume, `volumeMounts: [{name: e, mountPath: /a, mountPropagation: Bidirectional}]`,
		[]string{`spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers`}},
	{"recursively read-only and writable", claimVolume, `volumeMounts: [{name: e, mountPath: /a, recursiveReadOnly: Enabled}]`,
		[]string{`spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true`}},
	{"device of no claim", claimVolume, `volumeDevices: [{name: e, devicePath: /dev/x}]`,
		[]string{`spec.containers[0].volumeDevices[0].name: Invalid value: "e": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode`}},
	{"device path that climbs", claimVolume, `volumeDevices: [{name: v, devicePath: /dev/../x}]`,
		[]string{`spec.containers[0].volumeDevices[0].devicePath: Invalid value: "/dev/../x": can not contain backsteps ('..')`}},
}

var probeRules = []rule{
	{"all handlers", ``, `
livenessProbe: {httpGet: {port: 80}}
readinessProbe: {tcpSocket: {port: http}, successThreshold: 3}
startupProbe: {grpc: {port: 80}}
lifecycle: {postStart: {exec: {command: [a]}}, preStop: {sleep: {seconds: 5}}}`, nil},
	{"no handler", ``, `livenessProbe: {periodSeconds: 1}`, []string{`spec.containers[0].livenessProbe: Required value: must specify a handler type`}},
	{"two handlers", ``, `livenessProbe: {exec: {command: [a]}, httpGet: {port: 80}}`,
		[]string{`spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type`}},
	{"exec without command", ``, `livenessProbe: {exec: {}}`, []string{`spec.containers[0].livenessProbe.exec.command: Required value`}},
	{"success threshold", ``, `livenessProbe: {exec: {command: [a]}, successThreshold: 2}`,
		[]string{`spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1`}},
	{"startup success threshold", ``, `startupProbe: {exec: {command: [a]}, successThreshold: 2}`,
		[]string{`spec.containers[0].startupProbe.successThreshold: Invalid value: 2: must be 1`}},
	{"negative time", ``, `readinessProbe: {exec: {command: [a]}, initialDelaySeconds: -1}`,
		[]string{`spec.containers[0].readinessProbe.initialDelaySeconds: Invalid value: -1: must be greater than or equal to 0`}},
	{"grace of readiness", ``, `readinessProbe: {exec: {command: [a]}, terminationGracePeriodSeconds: 1}`,
		[]string{`spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 1: must not be set for readinessProbes`}},
	{"grace of zero", ``, `livenessProbe: {exec: {command: [a]}, terminationGracePeriodSeconds: 0}`,
		[]string{`spec.containers[0].livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than 0`}},
	{"scheme", ``, `livenessProbe: {httpGet: {port: 80, scheme: ftp}}`,
		[]string{`spec.containers[0].livenessProbe.httpGet.scheme: Unsupported value: "ftp": supported values: "HTTP", "HTTPS"`}},
	{"port", ``, `livenessProbe: {httpGet: {port: 0}}`,
		[]string{`spec.containers[0].livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive`}},
	{"header", ``, `livenessProbe: {httpGet: {port: 80, httpHeaders: [{name: "a b", value: c}]}}`,
		[]string{`spec.containers[0].livenessProbe.httpGet.httpHeaders: Invalid value: "a b": a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')`}},
	{"sleep longer than grace", `terminationGracePeriodSeconds: 10`, `lifecycle: {preStop: {sleep: {seconds: 11}}}`,
		[]string{`spec.containers[0].lifecycle.preStop.sleep: Invalid value: 11: must be non-negative and less than terminationGracePeriodSeconds (10)`}},
	{"stop signal without os", ``, `lifecycle: {stopSignal: SIGUSR1}`,
		[]string{"spec.containers[0].lifecycle.stopSignal: Forbidden: may not be set for containers with empty `spec.os.name`"}},
	{"stop signal", `os: {name: linux}`, `lifecycle: {stopSignal: SIGUSR1}`, nil},
	{"stop signal of windows", `os: {name: windows}`, `lifecycle: {stopSignal: SIGUSR1}`,
		[]string{`spec.containers[0].lifecycle.stopSignal: Unsupported value: "SIGUSR1": supported values: "SIGKILL", "SIGTERM"`}},
}
