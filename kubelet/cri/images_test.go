package cri

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/internal/eventually"
	"vigil/kubelet"
)

func pullSecret(t *testing.T, name, registry, user, password string) *corev1.Secret {
	t.Helper()
	data, err := json.Marshal(map[string]any{"auths": map[string]any{registry: map[string]string{"username": user, "password": password}}})
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: data},
	}
}

func TestEnsureImage(t *testing.T) {
	n := startNode(t, nil)
	r := startRegistry(t)
	r.logins["team"] = "ann:secret"
	public, private, again := r.push("open/app:1"), r.push("team/app:1"), r.push("open/app:latest")
	right := pullSecret(t, "right", r.host+"/team", "ann", "secret")
	wrong := pullSecret(t, "wrong", r.host+"/team/app", "ann", "forgotten")
	tests := []struct {
		name    string
		image   string
		policy  corev1.PullPolicy
		secrets []*corev1.Secret

		pulled bool
		failed string
		says   string
	}{
		{name: "a public image", image: public, policy: corev1.PullIfNotPresent, pulled: true},
		{name: "which is there then", image: public, policy: corev1.PullIfNotPresent},
		{name: "and pulled again when asked to", image: public, policy: corev1.PullAlways, pulled: true},
		{name: "and not pulled when not to", image: public, policy: corev1.PullNever},
		{name: "without tag", image: strings.TrimSuffix(again, ":latest"), pulled: true},
		{name: "which is :latest, always pulled", image: strings.TrimSuffix(again, ":latest"), pulled: true},
		{name: "one that came with the runtime, never pulled", image: "demo", policy: corev1.PullAlways},
		{name: "one that does not exist", image: r.host + "/open/none:1", failed: "ErrImagePull", says: "not found"},
		{name: "a private one without login", image: private, failed: "ErrImagePull", says: "no basic auth credentials"},
		{name: "with a wrong one", image: private, secrets: []*corev1.Secret{wrong}, failed: "ErrImagePull", says: "401"},
		{name: "with a wrong and a right one", image: private, secrets: []*corev1.Secret{right, wrong}, pulled: true},
		{name: "which is there then, for who has the secret", image: private, policy: corev1.PullIfNotPresent, secrets: []*corev1.Secret{right}},
		{name: "and not for others", image: private, policy: corev1.PullIfNotPresent, failed: "ErrImagePull", says: "no basic auth credentials"},
		{name: "and never", image: private, policy: corev1.PullNever, failed: "ErrImageNeverPull", says: "is not present with pull policy of Never"},
		{name: "an unreadable secret", image: private, policy: corev1.PullAlways, failed: "ErrImagePull", says: "secret default/bad",
			secrets: []*corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bad"}, Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{corev1.DockerConfigKey: []byte("{")}}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pod := newPod("pulls", nil)
			c := &pod.Spec.Containers[0]
			c.Image, c.ImagePullPolicy = test.image, test.policy
			began := 0
			image, err := n.EnsureImage(n.context(), kubelet.ImageRequest{Pod: pod, Container: c, Secrets: test.secrets, Began: func() { began++ }})
			if reason := reasonOf(err); reason != test.failed || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Fatalf("failed with %s: %v", reason, err)
			}
			if err == nil && (image.Pulled != test.pulled || !strings.HasPrefix(image.ID, "sha256:") || image.Size < 1000 || image.Pulled && (image.Took <= 0 || image.Waited > image.Took)) {
				t.Errorf("got %+v", image)
			}
			if pulls := test.pulled || test.failed == "ErrImagePull"; pulls != (began == 1) {
				t.Errorf("%d pulls began", began)
			}
		})
	}
}

// No more pulls are under way than may be, and the others wait.
func TestParallelPulls(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Config)
		want   int
	}{
		{"serialized", func(c *Config) { c.SerializeImagePulls = true }, 1},
		{"two", func(c *Config) { c.MaxParallelImagePulls = 2 }, 2},
		{"no limit", func(c *Config) { c.MaxParallelImagePulls = -1 }, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := startNode(t, test.change)
			r := startRegistry(t)
			r.gate = make(chan struct{})
			const images = 4
			done := make(chan error, images)
			for i := range images {
				pod := newPod("pulls", nil)
				pod.Spec.Containers[0].Image = r.push(fmt.Sprintf("open/%d:1", i))
				go func() {
					image, err := n.EnsureImage(n.context(), kubelet.ImageRequest{Pod: pod, Container: &pod.Spec.Containers[0]})
					if err == nil && image.Took < image.Waited {
						err = fmt.Errorf("took %v, and waited %v of them", image.Took, image.Waited)
					}
					done <- err
				}()
			}
			waiting := func() int {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.waiting
			}
			eventually.True(t, "as many pulls as may are under way", func() bool { return waiting() == test.want })
			close(r.gate)
			for range images {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			if r.mostAtOnce != test.want {
				t.Errorf("%d pulls at once", r.mostAtOnce)
			}
		})
	}
}
