package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/eventually"
	"vigil/test/harness"
)

// files: config maps, secrets and what pods say of themselves change under a running container; its token is good.
func files(t *testing.T, c *cluster) {
	c.Kubectl("create", "configmap", "settings", "--from-literal=colour=red")
	c.Kubectl("create", "secret", "generic", "password", "--from-literal=word=old")
	c.apply(manifest("reader", `volumes: [{name: cm, configMap: {name: settings}}, {name: s, secret: {secretName: password}},
  {name: all, projected: {sources: [{configMap: {name: settings}}, {secret: {name: password}}, {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}, {serviceAccountToken: {path: token, audience: somebody}}]}}],
containers: [{name: c, image: "demo:1", env: [{name: COLOUR, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}], envFrom: [{secretRef: {name: password}}],
  volumeMounts: [{name: cm, mountPath: /cm}, {name: s, mountPath: /s}, {name: all, mountPath: /all}, {name: cm, mountPath: /single, subPath: colour}]}]`))
	pod := c.running("reader")
	shows := func(file, want string) {
		t.Helper()
		eventually.Nil(c.T, file+" has "+want, func() error {
			if text := c.demo("reader", "cat", file); text != want {
				return fmt.Errorf("it has %q", text)
			}
			return nil
		})
	}
	shows("/cm/colour", "red")
	shows("/s/word", "old")
	shows("/single", "red")
	c.Kubectl("patch", "configmap", "settings", "--patch", `{"data": {"colour": "green"}}`)
	c.Kubectl("patch", "secret", "password", "--patch", `{"stringData": {"word": "new"}}`)
	c.Kubectl("label", "pod", "reader", "mood=good")
	shows("/cm/colour", "green")
	shows("/s/word", "new")
	shows("/all/colour", "green")
	shows("/all/word", "new")
	shows("/all/labels", "app=\"reader\"\nmood=\"good\"")
	if env := c.demo("reader", "env"); !strings.Contains(env, "COLOUR=red\n") || !strings.Contains(env, "word=old\n") {
		t.Errorf("environment:\n%s", env)
	}
	shows("/single", "red") // a subPath stays what it was

	for file, audience := range map[string]string{"/var/run/secrets/kubernetes.io/serviceaccount/token": "", "/all/token": "somebody"} {
		review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: c.demo("reader", "cat", file)}}
		if audience != "" {
			review.Spec.Audiences = []string{audience}
		}
		review, err := c.Client().AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if status := review.Status; !status.Authenticated || status.User.Username != "system:serviceaccount:"+c.Namespace+":default" ||
			fmt.Sprint(status.User.Extra["authentication.kubernetes.io/pod-uid"]) != fmt.Sprintf("[%s]", pod.UID) {
			t.Errorf("the token in %s is %+v", file, status)
		}
	}
}

// claims: what a pod writes to a claimed volume of the node's disk is there for the next one, and gone with the claim.
func claims(t *testing.T, c *cluster) {
	one := func(name, line string) string {
		return manifest(name, fmt.Sprintf(`restartPolicy: Never, securityContext: {runAsUser: 1000, fsGroup: 2000}, volumes: [{name: v, persistentVolumeClaim: {claimName: data}}],
containers: [{name: c, image: "demo:1", args: [sh, -c, %q], volumeMounts: [{name: v, mountPath: /v}]}]`, line))
	}
	c.apply("{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 10Mi}}}}\n---\n" + one("writer", "echo kept > /v/file"))
	c.Kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", harness.InTime, "pod/writer")
	volume := c.Kubectl("get", "pvc", "data", "-o", "jsonpath={.spec.volumeName}")
	c.Kubectl("delete", "pod", "writer")
	c.apply(one("reader", "cat /v/file; ls /v"))
	c.Kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", harness.InTime, "pod/reader")
	if out := c.Kubectl("logs", "reader"); !strings.HasPrefix(out, "kept\n") || !strings.Contains(out, " 1000 2000 5 file") {
		t.Errorf("the second pod finds %q", out)
	}
	c.Kubectl("delete", "pod/reader", "pvc/data")
	eventually.Nil(c.T, "the volume is gone", func() error {
		if out := c.Kubectl("get", "pv", volume, "--ignore-not-found", "-o", "name"); out != "" {
			return errors.New(out)
		}
		return nil
	})
}
