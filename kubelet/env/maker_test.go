package env

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// objects has the ConfigMaps and Secrets of namespace ns by name.
type objects struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string]string
}

func (o objects) ConfigMap(_ context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	data, ok := o.configMaps[name]
	if namespace != "ns" || !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("configmaps"), name)
	}
	return &corev1.ConfigMap{Data: data}, nil
}

func (o objects) Secret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	data, ok := o.secrets[name]
	if namespace != "ns" || !ok {
		return nil, apierrors.NewNotFound(corev1.Resource("secrets"), name)
	}
	secret := &corev1.Secret{Data: map[string][]byte{}}
	for k, v := range data {
		secret.Data[k] = []byte(v)
	}
	return secret, nil
}

func testPod(c corev1.Container) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "ns", UID: "1-2-3", Labels: map[string]string{"app": "web", "a.b/c": "d"}, Annotations: map[string]string{"note": "two\nlines"},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", ServiceAccountName: "robot", EnableServiceLinks: new(false), Containers: []corev1.Container{c, {
			Name: "other", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1500m")}},
		}}, Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}},
		Status: corev1.PodStatus{
			PodIP: "10.244.0.7", PodIPs: []corev1.PodIP{{IP: "10.244.0.7"}, {IP: "fd00::7"}}, HostIP: "192.0.2.1", HostIPs: []corev1.HostIP{{IP: "192.0.2.1"}},
		},
	}
}

func testMaker(t *testing.T) *Maker {
	root := t.TempDir()
	directory := filepath.Join(root, "pods/1-2-3/volumes/kubernetes.io~empty-dir/scratch")
	if err := os.MkdirAll(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(directory, "vars"), []byte("# made by init\nA='one'\n  B='two\nlines' # yes\nC= 'x'\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return &Maker{
		Objects: objects{
			configMaps: map[string]map[string]string{"cm": {"k": "v", "other.key": "x"}},
			secrets:    map[string]map[string]string{"s": {"password": "1$(k)"}},
		},
		RootDir: root,
		Allocatable: func() corev1.ResourceList {
			return corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi")}
		},
	}
}

func TestVariables(t *testing.T) {
	no := new(true) // optional
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
	}
	amount := func(ref corev1.ResourceFieldSelector) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ResourceFieldRef: &ref}
	}
	configMap := func(name, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
	}
	secret := func(name, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional}}
	}
	file := func(volume, path, key string, optional *bool) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: volume, Path: path, Key: key, Optional: optional}}
	}
	from := func(prefix, configMap, secret string, optional *bool) corev1.EnvFromSource {
		source := corev1.EnvFromSource{Prefix: prefix}
		if configMap != "" {
			source.ConfigMapRef = &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap}, Optional: optional}
		} else {
			source.SecretRef = &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Optional: optional}
		}
		return source
	}
	tests := []struct {
		name      string
		container corev1.Container
		want      string // NAME=value, a space between them
		fails     string
	}{
		{"nothing", corev1.Container{}, "", ""},
		{"references to earlier ones", corev1.Container{Env: []corev1.EnvVar{
			{Name: "B", Value: "$(A)"}, {Name: "A", Value: "1"}, {Name: "C", Value: "$(A)-$$(A)-$(NONE)"}, {Name: "A", Value: "2$(A)"},
		}}, "B=$(A) A=21 C=1-$(A)-$(NONE)", ""},
		{"a whole config map and secret", corev1.Container{EnvFrom: []corev1.EnvFromSource{from("", "cm", "", nil), from("S_", "", "s", nil)}},
			"k=v other.key=x S_password=1$(k)", ""},
		{"env over envFrom", corev1.Container{
			EnvFrom: []corev1.EnvFromSource{from("", "cm", "", nil)}, Env: []corev1.EnvVar{{Name: "k", Value: "[$(k)]"}},
		}, "k=[v] other.key=x", ""},
		{"optional ones that are not there", corev1.Container{
			EnvFrom: []corev1.EnvFromSource{from("", "no", "", no), from("", "", "no", no)},
			Env: []corev1.EnvVar{
				{Name: "A", ValueFrom: configMap("no", "k", no)}, {Name: "B", ValueFrom: configMap("cm", "no", no)},
				{Name: "C", ValueFrom: secret("no", "k", no)}, {Name: "D", ValueFrom: secret("s", "no", no)},
				{Name: "E", ValueFrom: file("scratch", "vars", "NO", no)},
			},
		}, "", ""},
		{"config map gone", corev1.Container{EnvFrom: []corev1.EnvFromSource{from("", "no", "", nil)}}, "", `configmap "no" not found`},
		{"secret gone", corev1.Container{EnvFrom: []corev1.EnvFromSource{from("", "", "no", nil)}}, "", `secret "no" not found`},
		{"config map of a key gone", corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: configMap("no", "k", nil)}}}, "", `configmap "no" not found`},
		{"secret of a key gone", corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: secret("no", "k", nil)}}}, "", `secret "no" not found`},
		{"key gone from config map", corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: configMap("cm", "no", nil)}}}, "", "couldn't find key no in ConfigMap ns/cm"},
		{"key gone from secret", corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: secret("s", "no", nil)}}}, "", "couldn't find key no in Secret ns/s"},
		{"keys", corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: configMap("cm", "k", nil)}, {Name: "B", ValueFrom: secret("s", "password", nil)}}}, "A=v B=1$(k)", ""},
		{"fields", corev1.Container{Env: []corev1.EnvVar{
			{Name: "A", ValueFrom: field("metadata.name")}, {Name: "B", ValueFrom: field("metadata.namespace")}, {Name: "C", ValueFrom: field("metadata.uid")},
			{Name: "D", ValueFrom: field("metadata.labels['a.b/c']")}, {Name: "E", ValueFrom: field("spec.nodeName")}, {Name: "F", ValueFrom: field("spec.serviceAccountName")},
			{Name: "G", ValueFrom: field("status.podIP")}, {Name: "H", ValueFrom: field("status.podIPs")}, {Name: "I", ValueFrom: field("status.hostIP")},
			{Name: "J", ValueFrom: field("status.hostIPs")}, {Name: "K", ValueFrom: field("metadata.annotations['note']")}, {Name: "L", ValueFrom: field("metadata.labels['no']")},
			{Name: "M", ValueFrom: field("metadata.labels")},
		}}, "A=web B=ns C=1-2-3 D=d E=node-1 F=robot G=10.244.0.7 H=10.244.0.7,fd00::7 I=192.0.2.1 J=192.0.2.1 K=two\nlines L= M=a.b/c=\"d\"\napp=\"web\"", ""},
		{"unknown field", corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: field("spec.x")}}}, "", "field label not supported: spec.x"},
		{"resources", corev1.Container{
			Name: "c",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("250m"), "memory": resource.MustParse("100Mi")},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("200Mi"), "hugepages-2Mi": resource.MustParse("4Mi")},
			},
			Env: []corev1.EnvVar{
				{Name: "A", ValueFrom: amount(corev1.ResourceFieldSelector{Resource: "requests.cpu"})},
				{Name: "B", ValueFrom: amount(corev1.ResourceFieldSelector{Resource: "requests.cpu", Divisor: resource.MustParse("1m")})},
				{Name: "C", ValueFrom: amount(corev1.ResourceFieldSelector{Resource: "limits.cpu"})},
				{Name: "D", ValueFrom: amount(corev1.ResourceFieldSelector{Resource: "limits.memory"})},
				{Name: "E", ValueFrom: amount(corev1.ResourceFieldSelector{Resource: "limits.memory", Divisor: resource.MustParse("1Gi")})},
				{Name: "F", ValueFrom: amount(corev1.ResourceFieldSelector{Resource: "limits.cpu", ContainerName: "other", Divisor: resource.MustParse("1m")})},
				{Name: "G", ValueFrom: amount(corev1.ResourceFieldSelector{Resource: "limits.hugepages-2Mi", Divisor: resource.MustParse("1Mi")})},
				{Name: "H", ValueFrom: amount(corev1.ResourceFieldSelector{Resource: "requests.ephemeral-storage"})},
			},
		}, "A=1 B=250 C=4 D=209715200 E=1 F=1500 G=4 H=0", ""},
		{"resource of no container", corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: amount(corev1.ResourceFieldSelector{Resource: "limits.cpu", ContainerName: "no"})}}},
			"", "container no not found"},
		{"no resource", corev1.Container{Env: []corev1.EnvVar{{Name: "A", ValueFrom: amount(corev1.ResourceFieldSelector{Resource: "limits.gold"})}}},
			"", "unsupported container resource : limits.gold"},
		{"file", corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: file("scratch", "vars", "B", nil)}}}, "X=two\nlines", ""},
		{"no volume", corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: file("no", "vars", "B", nil)}}}, "", `cannot find the volume "no" referenced by FileKeyRef`},
		{"no file", corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: file("scratch", "no", "B", nil)}}}, "", "couldn't parse env file"},
		{"file outside", corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: file("scratch", "../../etc/passwd", "B", nil)}}}, "", "couldn't parse env file"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := testPod(test.container)
			vars, err := testMaker(t).Variables(t.Context(), pod, &pod.Spec.Containers[0])
			if test.fails != "" {
				if err == nil || err.Error() != test.fails {
					t.Errorf("got %v, want %s", err, test.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, show(vars)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func show(vars []Var) string {
	var shown []string
	for _, v := range vars {
		shown = append(shown, v.Name+"="+v.Value)
	}
	return strings.Join(shown, " ")
}

func TestParseFile(t *testing.T) {
	tests := []struct{ file, want, fails string }{
		{"K='v'", "v", ""},
		{"A='x'\n\n \t\n#K='no'\n\tK='v' # note", "v", ""},
		{"K=''", "", ""},
		{"K= 'v'", "", ""},
		{"K='$(A) \\n'", "$(A) \\n", ""},
		{"A='1\n2\n'\nK='v'\n", "v", ""},
		{"K='a\r\nb'\r\n", "a\nb", ""},
		{"", "", ""},
		{"K='v'\nbad", "v", ""}, // what comes later is not read
		{"A='1'\nbad", "", "invalid environment variable format at line 2: missing '='"},
		{"='v'", "", "invalid environment variable format at line 1: empty variable name"},
		{"K ='v'", "", "invalid environment variable format at line 1: whitespace before '=' is not allowed"},
		{"K=v", "", "invalid environment variable format at line 1: value must be enclosed in single quotes"},
		{"K=", "", "invalid environment variable format at line 1: value must be enclosed in single quotes"},
		{"A='1\n2' x", "", "invalid environment variable format at line 2: unexpected content after closing quote"},
		{"\nK='v\n\n", "", "invalid environment variable format starting at line 2: unclosed single quote"},
	}
	for _, test := range tests {
		got, err := ParseFile(strings.NewReader(test.file), "K")
		if test.fails != "" {
			if err == nil || err.Error() != test.fails {
				t.Errorf("%q: got %v, want %s", test.file, err, test.fails)
			}
		} else if err != nil || got != test.want {
			t.Errorf("%q: got %q, %v, want %q", test.file, got, err, test.want)
		}
	}
}

func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{"K='v'", "A='1\n2'\nK='3' # x", "K=", "='", "K= 'x'"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, file string) {
		value, err := ParseFile(strings.NewReader(file), "K")
		if err == nil && strings.Contains(value, "'") {
			t.Errorf("%q has the value %q", file, value)
		}
	})
}
