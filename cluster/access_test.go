package cluster_test

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/cluster"
	"vigil/internal/eventually"
	"vigil/internal/porttest"
	"vigil/kubelet/node"
	"vigil/pki"
)

// guarded is a cluster as `vigil up` runs it, with two nodes, and callers of all sorts.
type guarded struct {
	t     *testing.T
	url   string
	roots *x509.CertPool
	ca    *pki.Pair
	admin *kubernetes.Clientset
}

// startGuarded starts a cluster. On each node runs a pod of namespace web (for-1, for-2) that refers to the secret and the
// config map of its name.
func startGuarded(t *testing.T) *guarded {
	t.Helper()
	port := porttest.Free(t)
	dir := t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- cluster.Up(ctx, cluster.UpConfig{
			DataDir: dir, Nodes: 2, Runtime: node.RuntimeSimulated, Out: io.Discard,
			APIServer: cluster.APIServerConfig{BindAddress: "127.0.0.1", SecurePort: port},
			Logger:    slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the cluster ended: %v", err)
		}
	})
	g := &guarded{t: t, url: fmt.Sprintf("https://127.0.0.1:%d", port)}
	eventually.True(g.t, "the cluster is ready", func() bool {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.conf"))
		if err != nil {
			return false
		}
		config.QPS = -1
		if g.admin, err = kubernetes.NewForConfig(config); err != nil {
			return false
		}
		nodes, err := g.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		view, errView := g.admin.RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{})
		edit, errEdit := g.admin.RbacV1().ClusterRoles().Get(ctx, "edit", metav1.GetOptions{})
		return err == nil && errView == nil && errEdit == nil && len(nodes.Items) == 2 && len(view.Rules) > 0 && len(edit.Rules) > len(view.Rules)
	})
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "pki", "ca.crt"), filepath.Join(dir, "pki", "ca.key"))
	g.must(err)
	g.ca = &pki.Pair{Cert: pair.Leaf, Key: pair.PrivateKey.(crypto.Signer)}
	g.roots = x509.NewCertPool()
	g.roots.AddCert(pair.Leaf)
	g.furnish(ctx)
	return g
}

func (g *guarded) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

// furnish makes the objects that requests are about.
func (g *guarded) furnish(ctx context.Context) {
	g.t.Helper()
	core := g.admin.CoreV1()
	_, err := core.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{})
	g.must(err)
	eventually.True(g.t, "web has its service account", func() bool {
		_, err := core.ServiceAccounts("web").Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	_, err = core.ServiceAccounts("web").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}, metav1.CreateOptions{})
	g.must(err)
	for _, id := range []string{"1", "2"} {
		name := "for-" + id
		_, err = core.Secrets("web").Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"k": "top secret " + id}}, metav1.CreateOptions{})
		g.must(err)
		_, err = core.ConfigMaps("web").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		g.must(err)
		_, err = core.Pods("web").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"on": "node-" + id}},
			Spec: corev1.PodSpec{NodeName: "node-" + id, Containers: []corev1.Container{{Name: "c", Image: "i", EnvFrom: []corev1.EnvFromSource{
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}},
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}},
			}}}},
		}, metav1.CreateOptions{})
		g.must(err)
	}
	user := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}}
	}
	role := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	_, err = g.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "viewers"}, Subjects: user("vera"), RoleRef: role("view")}, metav1.CreateOptions{})
	g.must(err)
	_, err = g.admin.RbacV1().RoleBindings("web").Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "editors"}, Subjects: user("ed"), RoleRef: role("edit")}, metav1.CreateOptions{})
	g.must(err)
}

// caller sends requests as somebody.
type caller struct {
	client *http.Client
	url    string
	token  string
}

// withCertificate is a caller with a certificate of the cluster's; without a name he has none.
func (g *guarded) withCertificate(name string, groups ...string) *caller {
	g.t.Helper()
	config := &tls.Config{RootCAs: g.roots, MinVersion: tls.VersionTLS12}
	if name != "" {
		pair, err := g.ca.Issue(pki.Subject{CommonName: name, Organizations: groups, Client: true}, time.Now())
		g.must(err)
		config.Certificates = []tls.Certificate{{Certificate: [][]byte{pair.Cert.Raw}, PrivateKey: pair.Key}}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	g.t.Cleanup(transport.CloseIdleConnections)
	return &caller{client: &http.Client{Transport: transport}, url: g.url}
}

func (g *guarded) withToken(namespace, account string) *caller {
	g.t.Helper()
	answer, err := g.admin.CoreV1().ServiceAccounts(namespace).CreateToken(g.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	g.must(err)
	c := g.withCertificate("")
	c.token = answer.Status.Token
	return c
}

// send sends a request and returns its code and up to 1 MiB of the answer. A watch is read until its deadline.
func (c *caller) send(t *testing.T, method, path, contentType, body string, header ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Add(name, value)
	}
	response, err := c.client.Do(request)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return response.StatusCode, string(data)
}

// TestAccess asks, as everybody there is, for everything that somebody may and somebody may not. A request counts as allowed when
// it got as far as being looked at: its answer may be any but 401 and 403.
func TestAccess(t *testing.T) {
	g := startGuarded(t)
	eventually.True(t, "the account of the deployment controller is there", func() bool {
		_, err := g.admin.CoreV1().ServiceAccounts("kube-system").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "deployment-controller"}}, metav1.CreateOptions{})
		_, errGet := g.admin.CoreV1().ServiceAccounts("kube-system").Get(t.Context(), "deployment-controller", metav1.GetOptions{})
		return err == nil || errGet == nil
	})
	callers := []struct {
		letter string
		name   string
		*caller
	}{
		{"A", "an administrator", g.withCertificate("boss", "system:masters")},
		{"C", "the controller manager", g.withCertificate("system:kube-controller-manager")},
		{"S", "the scheduler", g.withCertificate("system:kube-scheduler")},
		{"P", "kube-proxy", g.withCertificate("system:kube-proxy")},
		{"K", "the kubelet of node-1", g.withCertificate("system:node:node-1", "system:nodes")},
		{"D", "the account of a controller", g.withToken("kube-system", "deployment-controller")},
		{"R", "an account without rights", g.withToken("web", "robot")},
		{"V", "a viewer of the cluster", g.withCertificate("vera", "people")},
		{"E", "an editor of web", g.withCertificate("ed", "people")},
		{"F", "who has a kubelet's name but not its group", g.withCertificate("system:node:node-1", "people")},
		{"N", "nobody", g.withCertificate("")},
	}
	for _, tc := range []struct {
		method, path string
		allowed      string // letters; "?" behind those for whom it is admission's matter
	}{
		{"GET", "/healthz", "ACSPKDRVEFN"},
		{"GET", "/readyz", "ACSPKDRVEFN"},
		{"GET", "/version", "ACSPKDRVEFN"},
		{"GET", "/readyz/etcd", "A"},
		{"GET", "/api", "ACSPKDRVEF"},
		{"GET", "/apis/apps/v1", "ACSPKDRVEF"},
		{"GET", "/openapi/v3", "ACSPKDRVEF"},
		{"GET", "/openid/v1/jwks", "ADR"},
		{"GET", "/metrics", "A"},
		{"GET", "/debug/pprof/cmdline", "A"},

		{"GET", "/api/v1/pods", "ACSDV"},
		{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1", "ACSKDV"},
		{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-2", "ACSDV"},
		{"GET", "/api/v1/namespaces/web/pods/for-1", "ASKDVE"},
		{"GET", "/api/v1/namespaces/web/pods/for-2", "ASDVE"},
		{"GET", "/api/v1/namespaces/web/pods/for-1/log", "AVE"},
		{"POST", "/api/v1/namespaces/web/pods", "AEK?"},
		{"POST", "/api/v1/namespaces/default/pods", "AK?"},
		{"DELETE", "/api/v1/namespaces/web/pods/none", "ASEK?"},
		{"DELETE", "/api/v1/namespaces/web/pods?labelSelector=none", "AE"},
		{"PATCH", "/api/v1/namespaces/web/pods/none", "AE"},
		{"PUT", "/api/v1/namespaces/web/pods/none", "ADE"},
		{"PATCH", "/api/v1/namespaces/web/pods/none/status", "ASK?"},
		{"POST", "/api/v1/namespaces/web/pods/none/binding", "AS"},
		{"POST", "/api/v1/namespaces/web/bindings", "AS"},
		{"POST", "/api/v1/namespaces/web/pods/none/eviction", "AEK?"},
		{"POST", "/api/v1/namespaces/web/pods/none/exec", "AE"},
		{"PATCH", "/api/v1/namespaces/web/pods/none/ephemeralcontainers", "A"},

		{"GET", "/api/v1/secrets", "AC"},
		{"GET", "/api/v1/namespaces/web/secrets", "ACE"},
		{"GET", "/api/v1/namespaces/web/secrets/for-1", "ACKE"},
		{"GET", "/api/v1/namespaces/web/secrets/for-2", "ACE"},
		{"GET", "/api/v1/namespaces/web/secrets?fieldSelector=metadata.name%3Dfor-1", "ACKE"},
		{"GET", "/api/v1/namespaces/web/secrets?fieldSelector=metadata.name%3Dfor-2", "ACE"},
		{"PATCH", "/api/v1/namespaces/web/secrets/none", "AE"},
		{"GET", "/api/v1/namespaces/web/configmaps/for-1", "ACKVE"},
		{"GET", "/api/v1/namespaces/web/configmaps/for-2", "ACVE"},
		{"GET", "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication", "ACSV"},
		{"POST", "/api/v1/namespaces/web/serviceaccounts/none/token", "ACE"},
		{"POST", "/api/v1/namespaces/web/serviceaccounts", "ACE"},

		{"GET", "/api/v1/nodes", "ACSP"},
		{"GET", "/api/v1/nodes/node-1", "ASPK"},
		{"GET", "/api/v1/nodes/node-2", "ASP"},
		{"DELETE", "/api/v1/nodes/none", "A"},
		{"PATCH", "/api/v1/nodes/none/status", "AK?"},
		{"GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1", "AK"},
		{"GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-2", "A"},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-2", "A"},
		{"GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler", "AS"},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-controller-manager", "AC"},

		{"GET", "/api/v1/services", "ACSPKV"},
		{"GET", "/apis/discovery.k8s.io/v1/endpointslices", "ACPV"},
		{"PUT", "/api/v1/namespaces/web/services/none/status", "A"},
		{"POST", "/api/v1/namespaces/web/events", "ACSPKDE"},
		{"GET", "/apis/apps/v1/deployments", "ACDV"},
		{"POST", "/apis/apps/v1/namespaces/web/deployments", "AE"},
		{"PUT", "/apis/apps/v1/namespaces/web/deployments/none/status", "AD"},
		{"POST", "/apis/apps/v1/namespaces/web/replicasets", "ADE"},
		{"PATCH", "/apis/apps/v1/namespaces/web/deployments/none/scale", "AE"},

		{"GET", "/api/v1/namespaces", "ACSV"},
		{"GET", "/api/v1/namespaces/web", "ACSVE"},
		{"POST", "/api/v1/namespaces", "A"},
		{"DELETE", "/api/v1/namespaces/none", "A"},
		{"GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "AC"},
		{"POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "A"},
		{"POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/web/rolebindings", "A"},
		{"PUT", "/apis/certificates.k8s.io/v1/certificatesigningrequests/none/approval", "A"},
		{"POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", "AK"},

		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "ACSPKDRVEF"},
		{"POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", "ACSPKDRVEF"},
		{"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "ACSPKDRVEF"},
		{"POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", "ACSK"},
		{"POST", "/apis/authentication.k8s.io/v1/tokenreviews", "ACSK"},
		{"GET", "/apis/nonsense.example.com/v1/things", "AC"},
	} {
		contentType := ""
		switch tc.method {
		case "POST", "PUT":
			contentType = "application/json"
		case "PATCH":
			contentType = "application/merge-patch+json"
		}
		for _, who := range callers {
			at := strings.Index(tc.allowed, who.letter)
			if at >= 0 && strings.HasPrefix(tc.allowed[at+1:], "?") {
				continue
			}
			code, body := who.send(t, tc.method, tc.path, contentType, "{}")
			refused := code == http.StatusForbidden || code == http.StatusUnauthorized
			if refused == (at >= 0) {
				t.Errorf("%s (%s): %s %s: got %d %.300s", who.name, who.letter, tc.method, tc.path, code, body)
			}
		}
	}

	// To be somebody else takes the verb impersonate, whoever that is.
	for _, who := range callers {
		code, _ := who.send(t, "GET", "/api/v1/namespaces", "", "", "Impersonate-User: vera")
		if allowed := who.letter == "A"; allowed != (code == http.StatusOK) {
			t.Errorf("%s as somebody else: got %d", who.name, code)
		}
	}
}

// TestKubeletClient: the API server's user at kubelets may do there what it needs, and nothing elsewhere.
func TestKubeletClient(t *testing.T) {
	g := startGuarded(t)
	for sub, allowed := range map[string]bool{"proxy": true, "log": true, "metrics": true, "stats": true, "pods": true, "status": false} {
		for _, verb := range []string{"get", "create"} {
			review, err := g.admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
				User: pki.KubeletClient, Groups: []string{"system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Version: "v1", Resource: "nodes", Subresource: sub, Name: "node-1"},
			}}, metav1.CreateOptions{})
			g.must(err)
			if review.Status.Allowed != allowed {
				t.Errorf("%s nodes/%s: %+v", verb, sub, review.Status)
			}
		}
	}
	client := g.withCertificate(pki.KubeletClient)
	for _, tc := range []struct {
		method, path, body string
		code               int
	}{
		{"GET", "/api/v1/nodes/node-1", "", 200},
		{"GET", "/api/v1/secrets", "", 403},
		{"GET", "/api/v1/namespaces/web/pods/for-1", "", 403},
		{"POST", "/api/v1/namespaces/web/pods", "{}", 403},
		{"DELETE", "/api/v1/nodes/node-1", "", 403},
		{"POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "{}", 403},
	} {
		if code, body := client.send(t, tc.method, tc.path, "application/json", tc.body); code != tc.code {
			t.Errorf("%s %s: %d %.200s", tc.method, tc.path, code, body)
		}
	}
}

// TestKubelet_OtherNodes tries, as the kubelet of node-1, to get at what is on node-2.
func TestKubelet_OtherNodes(t *testing.T) {
	g := startGuarded(t)
	kubelet := g.withCertificate("system:node:node-1", "system:nodes")
	const pods, secrets = "/api/v1/namespaces/web/pods", "/api/v1/namespaces/web/secrets"
	for _, tc := range []struct{ method, path, body string }{
		{"GET", pods + "/for-2", ""},
		{"GET", pods, ""},
		{"GET", "/api/v1/pods", ""},
		{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-2", ""},
		{"GET", "/api/v1/pods?fieldSelector=spec.nodeName!%3Dnode-1", ""},
		{"GET", "/api/v1/pods?fieldSelector=spec.nodeName!%3D", ""},
		{"GET", "/api/v1/pods?fieldSelector=metadata.namespace%3Dweb", ""},
		{"GET", "/api/v1/pods?labelSelector=on%3Dnode-1", ""},
		{"GET", "/api/v1/pods?labelSelector=spec.nodeName%3Dnode-1", ""},
		{"GET", "/api/v1/pods?fieldSelector=&fieldSelector=spec.nodeName%3Dnode-1", ""},
		{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-2&fieldSelector=spec.nodeName%3Dnode-1", ""},
		{"GET", "/api/v1/pods?FieldSelector=spec.nodeName%3Dnode-1", ""},
		{"GET", "/api/v1/pods?fieldSelector=metadata.name%3Dfor-2", ""},
		{"GET", "/api/v1/pods?watch=1&timeoutSeconds=1", ""},
		{"GET", "/api/v1/pods?watch=1&timeoutSeconds=1&fieldSelector=spec.nodeName%3Dnode-2", ""},
		{"GET", "/api/v1/watch/pods?timeoutSeconds=1", ""},
		{"GET", "/api/v1/watch/namespaces/web/pods/for-2?timeoutSeconds=1", ""},
		{"GET", pods + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dfor-2", ""},
		{"GET", pods + "/for-2/status", ""},
		{"GET", pods + "/for-2/log", ""},
		{"GET", pods + "/for-1/../for-2", ""},
		{"GET", "//api//v1//namespaces//web//pods//for-2", ""},
		{"PATCH", pods + "/for-2", `{"metadata":{"labels":{"a":"b"}}}`},
		{"PATCH", pods + "/for-2/status", `{"status":{"phase":"Failed"}}`},
		{"PUT", pods + "/for-2", `{}`},
		{"DELETE", pods + "/for-2", ""},
		{"DELETE", pods, ""},
		{"DELETE", pods + "?fieldSelector=spec.nodeName%3Dnode-1", ""},
		{"POST", pods + "/for-2/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"for-2","namespace":"web"}}`},
		{"POST", pods + "/for-2/binding", `{}`},

		{"GET", secrets + "/for-2", ""},
		{"GET", secrets, ""},
		{"GET", "/api/v1/secrets", ""},
		{"GET", "/api/v1/secrets?fieldSelector=metadata.name%3Dfor-1", ""},
		{"GET", secrets + "?fieldSelector=metadata.name%3Dfor-2", ""},
		{"GET", secrets + "?fieldSelector=metadata.name!%3Dfor-1", ""},
		{"GET", secrets + "?fieldSelector=spec.nodeName%3Dnode-1", ""},
		{"GET", secrets + "?fieldSelector=metadata.name%3Dfor-2&fieldSelector=metadata.name%3Dfor-1", ""},
		{"GET", secrets + "?watch=1&timeoutSeconds=1", ""},
		{"GET", secrets + "?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dfor-2", ""},
		{"GET", "/api/v1/watch/namespaces/web/secrets/for-2?timeoutSeconds=1", ""},
		{"GET", secrets + "/for-1/../for-2", ""},
		{"GET", secrets + "/for-1%2F..%2Ffor-2", ""},
		{"PATCH", secrets + "/for-2", `{}`},
		{"PATCH", secrets + "/for-1", `{}`},
		{"DELETE", secrets + "/for-1", ""},
		{"POST", secrets, `{}`},
		{"GET", "/api/v1/namespaces/web/configmaps/for-2", ""},
		{"GET", "/api/v1/namespaces/web/configmaps", ""},
		{"POST", "/api/v1/namespaces/web/serviceaccounts/robot/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}`},
		{"POST", "/api/v1/namespaces/kube-system/serviceaccounts/namespace-controller/token", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest"}`},
	} {
		contentType := ""
		switch {
		case tc.method == "PATCH":
			contentType = "application/merge-patch+json"
		case tc.body != "":
			contentType = "application/json"
		}
		code, body := kubelet.send(t, tc.method, tc.path, contentType, tc.body)
		if !slices.Contains([]int{http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest, http.StatusMovedPermanently}, code) {
			t.Errorf("%s %s: got %d %.300s", tc.method, tc.path, code, body)
		}
		if strings.Contains(body, `"node-2"`) || strings.Contains(body, "dG9wIHNlY3JldC") { // base64 of "top secret"
			t.Errorf("%s %s: tells what it must not: %.300s", tc.method, tc.path, body)
		}
	}
	if pod, err := g.admin.CoreV1().Pods("web").Get(t.Context(), "for-2", metav1.GetOptions{}); err != nil || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed {
		t.Errorf("the other node's pod is not as it was: %v", err)
	}

	for _, tc := range []struct{ path, has string }{
		{pods + "/for-1", `"nodeName":"node-1"`},
		{"/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1", `"nodeName":"node-1"`},
		{"/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-1&fieldSelector=spec.nodeName%3Dnode-2", `"nodeName":"node-1"`}, // the first counts
		{"/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion=0&fieldSelector=spec.nodeName%3Dnode-1", `"nodeName":"node-1"`},
		{secrets + "/for-1", "dG9wIHNlY3JldCAx"},
		{secrets + "?fieldSelector=metadata.name%3Dfor-1", "dG9wIHNlY3JldCAx"},
		{"/api/v1/namespaces/web/configmaps/for-1", `"name":"for-1"`},
	} {
		code, body := kubelet.send(t, "GET", tc.path, "", "")
		if code != http.StatusOK || !strings.Contains(body, tc.has) || strings.Contains(body, `"node-2"`) {
			t.Errorf("%s: got %d %.300s", tc.path, code, body)
		}
	}
}
