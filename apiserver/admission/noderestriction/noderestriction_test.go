package noderestriction_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver"
	"vigil/apiserver/admission/plugins"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authz"
	"vigil/apiserver/write"
	"vigil/kinds"
)

// TestKubelet has the kubelet of n1 try what it may and may not write, over TLS. Authorization allows everything, so that only the
// plug-in is in the way.
func TestKubelet(t *testing.T) {
	s := apiservertest.Start(t, func(c *apiserver.Config) {
		c.Authorizer = allButAudiences{}
		// What evictions and tokens would do does not matter here.
		answer := func(_ context.Context, _ *write.Request, _ kinds.Object, body runtime.Object) (runtime.Object, error) {
			return body, nil
		}
		c.WriteHooks = map[schema.GroupResource]write.Hook{
			{Resource: "pods"}:            {Post: map[string]write.PostFunc{"eviction": answer}},
			{Resource: "serviceaccounts"}: {Post: map[string]write.PostFunc{"token": answer}},
		}
		c.Admission = plugins.Config{Enable: []string{"NodeRestriction"}, Disable: []string{"ServiceAccount"}}
	})
	ctx := t.Context()
	admin := s.Clientset()
	kubelet, err := kubernetes.NewForConfig(s.Client("system:node:n1", "system:nodes"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"x", corev1.NamespaceNodeLease} {
		check(second(admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})))
	}
	check(second(admin.CoreV1().ServiceAccounts("x").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})))
	check(second(kubelet.CoreV1().Nodes().Create(ctx, node("n1", map[string]string{corev1.LabelHostname: "n1", "team": "a"}), metav1.CreateOptions{})))
	own, err := admin.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
	check(err)
	pods := map[string]*corev1.Pod{}
	for _, on := range []string{"n1", "n2"} {
		p := pod("on-"+on, on, nil)
		p.Spec.ServiceAccountName = "a"
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t", Audience: "vault"}}},
		}}}}
		pods[on], err = admin.CoreV1().Pods("x").Create(ctx, p, metav1.CreateOptions{})
		check(err)
	}
	mirror := func(change func(*corev1.Pod)) error {
		yes := true
		p := pod("mirror", "n1", map[string]string{corev1.MirrorPodAnnotationKey: "x"})
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: own.UID, Controller: &yes}}
		change(p)
		return second(kubelet.CoreV1().Pods("x").Create(ctx, p, metav1.CreateOptions{}))
	}
	again := func() error {
		other, err := kubernetes.NewForConfig(s.Client("system:node:n3", "system:nodes"))
		check(err)
		n := node("n3", nil)
		n.Spec.PodCIDR, n.Spec.PodCIDRs = "128.0.0.0/1", []string{"128.0.0.0/1"}
		return second(other.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}))
	}
	patchNode := func(name, patch string) error {
		return second(kubelet.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
	}
	patchStatus := func(name, patch string) error {
		return second(kubelet.CoreV1().Pods("x").Patch(ctx, name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"))
	}
	lease := func(namespace, name string) error {
		return second(kubelet.CoordinationV1().Leases(namespace).Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	}
	token := func(ref *authenticationv1.BoundObjectReference, audiences ...string) error {
		return second(kubelet.CoreV1().ServiceAccounts("x").CreateToken(ctx, "a", &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: ref, Audiences: audiences}}, metav1.CreateOptions{}))
	}
	podRef := func(p *corev1.Pod) *authenticationv1.BoundObjectReference {
		return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: p.Name, UID: p.UID}
	}
	sign := func(name, common string) error {
		return second(kubelet.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName, Request: request(t, common),
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth, certificatesv1.UsageDigitalSignature},
			},
		}, metav1.CreateOptions{}))
	}
	evict := func(name string) error {
		return kubelet.CoreV1().Pods("x").EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}

	for _, c := range []struct {
		what string
		err  error
		want string // part of the refusal; "" is none
	}{
		{"another node", second(kubelet.CoreV1().Nodes().Create(ctx, node("n2", nil), metav1.CreateOptions{})), `node "n1" is not allowed to modify node "n2"`},
		{"its heartbeat", patchNode("n1", `{"status":{"phase":""}}`), ""},
		{"a label of the owner's", patchNode("n1", `{"metadata":{"labels":{"team":"b"}}}`), ""},
		{"a kubelet label", patchNode("n1", `{"metadata":{"labels":{"node.kubernetes.io/x":"b","kubelet.kubernetes.io/y":"c"}}}`), ""},
		{"a restricted label", patchNode("n1", `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"b","sub.node-restriction.kubernetes.io/x":"b"}}}`),
			`is not allowed to modify labels: node-restriction.kubernetes.io/x, sub.node-restriction.kubernetes.io/x`},
		{"a label of Kubernetes'", patchNode("n1", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`), `is not allowed to modify labels: node-role.kubernetes.io/control-plane`},
		{"taints", patchNode("n1", `{"spec":{"taints":null}}`), `node "n1" is not allowed to modify taints`},
		{"a network of all others", patchNode("n1", `{"spec":{"podCIDR":"0.0.0.0/1","podCIDRs":["0.0.0.0/1"]}}`), `node "n1" is not allowed to modify podCIDRs`},
		{"a network in its status", second(kubelet.CoreV1().Nodes().Patch(ctx, "n1", types.StrategicMergePatchType, []byte(`{"spec":{"podCIDR":"0.0.0.0/1","podCIDRs":["0.0.0.0/1"]}}`), metav1.PatchOptions{}, "status")), `node "n1" is not allowed to modify podCIDRs`},
		{"an applied network", second(kubelet.CoreV1().Nodes().Patch(ctx, "n1", types.ApplyPatchType, []byte(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"},"spec":{"podCIDR":"0.0.0.0/1","podCIDRs":["0.0.0.0/1"]}}`),
			metav1.PatchOptions{FieldManager: "kubelet"})), `node "n1" is not allowed to modify podCIDRs`},
		{"itself again, with a network", again(), `node "n3" is not allowed to set podCIDRs`},
		{"owners", patchNode("n1", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}}`), `node "n1" is not allowed to modify ownerReferences`},

		{"an ordinary pod", second(kubelet.CoreV1().Pods("x").Create(ctx, pod("p", "n1", nil), metav1.CreateOptions{})), `pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods`},
		{"a mirror pod elsewhere", mirror(func(p *corev1.Pod) { p.Spec.NodeName = "n2" }), `node "n1" can only create pods with spec.nodeName set to itself`},
		{"a mirror pod of nobody", mirror(func(p *corev1.Pod) { p.OwnerReferences = nil }), `node "n1" can only create pods with an owner reference set to itself`},
		{"a mirror pod of a former node", mirror(func(p *corev1.Pod) { p.OwnerReferences[0].UID = "old" }), `node n1 UID mismatch: expected old got `},
		{"a mirror pod with an account", mirror(func(p *corev1.Pod) { p.Spec.ServiceAccountName = "a" }), `node "n1" can not create pods that reference a service account`},
		{"a mirror pod with a secret", mirror(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
		}), `node "n1" can not create pods that reference secrets`},
		{"a mirror pod with an environment", mirror(func(p *corev1.Pod) {
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}}
		}), `node "n1" can not create pods that reference configmaps`},
		{"a mirror pod with a claim", mirror(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "s"}}}}
		}), `node "n1" can not create pods that reference persistentvolumeclaims`},
		{"a mirror pod", mirror(func(*corev1.Pod) {}), ""},

		{"the status of its pod", patchStatus("on-n1", `{"status":{"phase":"Running"}}`), ""},
		{"a label with it", patchStatus("on-n1", `{"metadata":{"labels":{"app":"web"}},"status":{"phase":"Running"}}`), `node "n1" cannot update labels through pod status`},
		{"the status of another's pod", patchStatus("on-n2", `{"status":{"phase":"Failed"}}`), `node "n1" can only update pod status for pods with spec.nodeName set to itself`},
		{"the spec of its pod", second(kubelet.CoreV1().Pods("x").Patch(ctx, "on-n1", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})), `unexpected operation "UPDATE", node "n1" can only create and delete mirror pods`},
		{"delete another's pod", kubelet.CoreV1().Pods("x").Delete(ctx, "on-n2", metav1.DeleteOptions{}), `node "n1" can only delete pods with spec.nodeName set to itself`},
		{"evict another's pod", evict("on-n2"), `node n1 can only evict pods with spec.nodeName set to itself`},

		{"its lease", lease(corev1.NamespaceNodeLease, "n1"), ""},
		{"another's lease", lease(corev1.NamespaceNodeLease, "n2"), "can only access node lease with the same name as the requesting node"},
		{"a lease elsewhere", lease("x", "n1"), `can only access leases in the "kube-node-lease" system namespace`},
		{"another's CSINode", second(kubelet.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, metav1.CreateOptions{})), "can only access CSINode with the same name as the requesting node"},

		{"a token of no pod", token(nil), "node requested token not bound to a pod"},
		{"a token of another's pod", token(podRef(pods["n2"])), "node requested token bound to a pod scheduled on a different node"},
		{"a token of a former pod", token(&authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "on-n1", UID: "old"}), "the UID in the bound object reference (old) does not match the UID in record."},

		{"a token for anybody", token(podRef(pods["n1"]), "somewhere"), `audience "somewhere" not found in pod spec volume`},
		{"a token of its pod", token(podRef(pods["n1"]), "vault"), ""},
		{"evict its pod", evict("on-n1"), ""},

		{"a certificate of its own", sign("own", "system:node:n1"), ""},
		{"a certificate of another's", sign("other", "system:node:n2"), "can only create a node CSR with CN=system:node:n1"},

		{"delete its pod", kubelet.CoreV1().Pods("x").Delete(ctx, "on-n1", metav1.DeleteOptions{}), ""},
	} {
		switch {
		case c.want == "" && c.err != nil:
			t.Errorf("%s: %v", c.what, c.err)
		case c.want != "" && (c.err == nil || !strings.Contains(c.err.Error(), " is forbidden: "+c.want)):
			t.Errorf("%s: got  %v\nwant %s", c.what, c.err, c.want)
		}
	}
}

// allButAudiences allows everything but tokens for whom no pod asks.
type allButAudiences struct{}

func (allButAudiences) Authorize(_ context.Context, attr *authz.Attributes) (allowed bool, reason string, err error) {
	return attr.Verb != "request-serviceaccounts-token-audience", "", nil
}

func second[T any](_ T, err error) error { return err }

func node(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func pod(name, on string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func request(t *testing.T, common string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: common, Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
