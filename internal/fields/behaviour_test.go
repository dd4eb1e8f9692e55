package fields

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/apiservertest"
)

// dropped are objects that set every field with the verdict dropped, and what the warnings about each say, by type and field. A type that
// is dropped as a whole ("*") goes with the field that has it.
var dropped = []struct {
	path, body string
	warnings   map[string]string
}{
	{"/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{
		"serviceAccountName":"s","schedulingGroup":{"podGroupName":"g"},
		"evictionResponders":[{"name":"example.com/r","priority":1}],
		"containers":[{"name":"c","image":"i",
			"volumeMounts":[{"name":"dir","mountPath":"/dir","bindMountOptions":["noexec"]}],
			"livenessProbe":{"httpGet":{"port":80,"protocol":"H2C"}},
			"readinessProbe":{"grpc":{"port":80,"mode":"TLS"}}}],
		"volumes":[
			{"name":"dir","emptyDir":{"mode":448}},
			{"name":"secret","secret":{"secretName":"s","defaultUser":1,"items":[{"key":"k","path":"p","user":1}]}},
			{"name":"map","configMap":{"name":"m","defaultUser":1}},
			{"name":"downward","downwardAPI":{"defaultUser":1,"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.name"},"user":1}]}},
			{"name":"all","projected":{"defaultUser":1,"sources":[
				{"serviceAccountToken":{"path":"t","user":1}},
				{"clusterTrustBundle":{"name":"b","path":"b","user":1}},
				{"podCertificate":{"signerName":"example.com/s","keyType":"ED25519","credentialBundlePath":"c","user":1}}]}}]}}`,
		map[string]string{
			"PodSpec.SchedulingGroup":             "spec.schedulingGroup: dropped",
			"PodSchedulingGroup.*":                "spec.schedulingGroup: dropped",
			"PodSpec.EvictionResponders":          "spec.evictionResponders: dropped",
			"EvictionResponder.*":                 "spec.evictionResponders: dropped",
			"VolumeMount.BindMountOptions":        "spec.containers[0].volumeMounts[0].bindMountOptions: dropped",
			"HTTPGetAction.Protocol":              "spec.containers[0].livenessProbe.httpGet.protocol: dropped",
			"GRPCAction.Mode":                     "spec.containers[0].readinessProbe.grpc.mode: dropped",
			"EmptyDirVolumeSource.Mode":           "spec.volumes[0].emptyDir.mode: dropped",
			"SecretVolumeSource.DefaultUser":      "spec.volumes[1].secret.defaultUser: dropped",
			"KeyToPath.User":                      "spec.volumes[1].secret.items[0].user: dropped",
			"ConfigMapVolumeSource.DefaultUser":   "spec.volumes[2].configMap.defaultUser: dropped",
			"DownwardAPIVolumeSource.DefaultUser": "spec.volumes[3].downwardAPI.defaultUser: dropped",
			"DownwardAPIVolumeFile.User":          "spec.volumes[3].downwardAPI.items[0].user: dropped",
			"ProjectedVolumeSource.DefaultUser":   "spec.volumes[4].projected.defaultUser: dropped",
			"ServiceAccountTokenProjection.User":  "spec.volumes[4].projected.sources[0].serviceAccountToken.user: dropped",
			"ClusterTrustBundleProjection.User":   "spec.volumes[4].projected.sources[1].clusterTrustBundle.user: dropped",
			"PodCertificateProjection.User":       "spec.volumes[4].projected.sources[2].podCertificate.user: dropped",
		}},
	{"/apis/batch/v1/namespaces/default/jobs", `{"metadata":{"name":"j"},"spec":{
		"scheduling":{"schedulingPolicy":{"gang":{"minCount":1}}},
		"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}`,
		map[string]string{
			"JobSpec.Scheduling":                      "spec.scheduling: dropped",
			"JobSchedulingConfiguration.*":            "spec.scheduling: dropped",
			"WorkloadPodGroupSchedulingPolicy.*":      "spec.scheduling: dropped",
			"WorkloadPodGroupBasicSchedulingPolicy.*": "spec.scheduling: dropped",
			"WorkloadPodGroupGangSchedulingPolicy.*":  "spec.scheduling: dropped",
			"WorkloadPodGroupSchedulingConstraints.*": "spec.scheduling: dropped",
			"TopologyConstraint.*":                    "spec.scheduling: dropped",
			"WorkloadPodGroupDisruptionMode.*":        "spec.scheduling: dropped",
			"WorkloadPodGroupSingleDisruptionMode.*":  "spec.scheduling: dropped",
			"WorkloadPodGroupAllDisruptionMode.*":     "spec.scheduling: dropped",
			"WorkloadPodGroupResourceClaim.*":         "spec.scheduling: dropped",
		}},
	{"/api/v1/namespaces/default/persistentvolumeclaims", `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},
		"dataSourceRef":{"kind":"PersistentVolumeClaim","name":"x","namespace":"other"}}}`,
		map[string]string{"TypedObjectReference.Namespace": "spec.dataSourceRef: dropped"}},
}

// shown names the test that shows a field with the verdict held or warned in a whole scheduler or kubelet: a pod waits and an event says
// why, or a pod is bound and an event says what was not heeded.
var shown = map[string]string{
	"PodSpec.ResourceClaims":                                         "scheduler/unheeded_test.go TestScheduler_ResourceClaims",
	"ResourceRequirements.Claims":                                    "scheduler/unheeded_test.go TestScheduler_ResourceClaims",
	"ResourceClaim.Name":                                             "kubelet/devices_test.go TestResourceClaims_AreWaitedFor",
	"ResourceClaim.Request":                                          "kinds/podspec/validate_test.go TestValidatePod", // a request is of a claim, which holds the pod
	"PodResourceClaim.Name":                                          "scheduler/unheeded_test.go TestScheduler_ResourceClaims",
	"PodResourceClaim.ResourceClaimName":                             "scheduler/unheeded_test.go TestScheduler_ResourceClaims",
	"PodResourceClaim.ResourceClaimTemplateName":                     "scheduler/unheeded_test.go TestScheduler_ResourceClaims",
	"PodSpec.TopologySpreadConstraints":                              "scheduler/unheeded_test.go TestScheduler_UnheededRules",
	"TopologySpreadConstraint.WhenUnsatisfiable":                     "scheduler/unheeded_test.go TestScheduler_UnheededRules",
	"Affinity.PodAffinity":                                           "scheduler/unheeded_test.go TestScheduler_UnheededRules",
	"Affinity.PodAntiAffinity":                                       "scheduler/unheeded_test.go TestScheduler_UnheededRules",
	"PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution":     "scheduler/unheeded_test.go TestScheduler_UnheededRules",
	"PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution": "scheduler/unheeded_test.go TestScheduler_UnheededRules",
}

// warnings collects the texts of Warning headers.
type warnings struct {
	mu    sync.Mutex
	texts []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.texts = append(w.texts, text)
}

// Each field with the verdict dropped is set in an object: the server warns, and does not store it.
func TestVerdicts_Dropped(t *testing.T) {
	s := apiservertest.Start(t)
	if _, err := s.Clientset().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expected := map[string]bool{}
	for _, object := range dropped {
		heard := &warnings{}
		config := s.Admin()
		config.WarningHandler = heard
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := client.CoreV1().RESTClient().Post().AbsPath(object.path).Body([]byte(object.body)).SetHeader("Content-Type", "application/json").Do(t.Context()).Raw()
		if err != nil {
			t.Fatalf("%s: %v: %s", object.path, err, stored)
		}
		spec, _, _ := strings.Cut(string(stored), `"status":`)
		if _, after, found := strings.Cut(spec, `"spec":`); found {
			spec = after
		}
		for _, name := range []string{`User":`, `"user":`, `"mode":`, `"protocol":`, `"bindMountOptions":`, `"schedulingGroup":`, `"evictionResponders":`, `"scheduling":`, `"dataSourceRef":`} {
			if strings.Contains(spec, name) {
				t.Errorf("%s: %s is stored: %s", object.path, name, spec)
			}
		}
		for field, want := range object.warnings {
			expected[field] = true
			if !strings.Contains(strings.Join(heard.texts, "\n"), want) {
				t.Errorf("%s: no warning %q in %q", field, want, heard.texts)
			}
		}
	}
	sameFields(t, expected, "dropped")
}

// Each field with the verdict held or warned has a test that shows it.
func TestVerdicts_Shown(t *testing.T) {
	expected := map[string]bool{}
	for field, where := range shown {
		expected[field] = true
		file, name, _ := strings.Cut(where, " ")
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil || !strings.Contains(string(text), "func "+name+"(t *testing.T)") {
			t.Errorf("%s: there is no %s: %v", field, where, err)
		}
	}
	sameFields(t, expected, "held", "warned")
}

// sameFields compares the fields that a test looks at with those that have the verdicts.
func sameFields(t *testing.T, tested map[string]bool, verdicts ...string) {
	t.Helper()
	have := map[string]bool{}
	for kind, fields := range read(t) {
		for field, v := range fields {
			if strings.Contains(strings.Join(verdicts, " "), v.kind) {
				have[kind+"."+field] = true
				if !tested[kind+"."+field] {
					t.Errorf("%s: no test shows that %s.%s is %s", v.line, kind, field, v.kind)
				}
			}
		}
	}
	for field := range tested {
		if !have[field] {
			t.Errorf("%s does not have the verdict %s", field, verdicts)
		}
	}
}
