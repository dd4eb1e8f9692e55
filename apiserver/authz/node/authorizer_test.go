package node_test

import (
	"context"
	"net/url"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/authz/node"
	"vigil/apiserver/request"
	"vigil/watchcache"
)

// world is a server with two nodes, n1 and n2. On each runs a pod (p1 in namespace a, p2 in b) that refers to objects named
// after it; volumes are bound to their claims, and attached.
type world struct {
	t      *testing.T
	server *apiservertest.Server
	client *kubernetes.Clientset
	authz  *node.Authorizer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s := apiservertest.Start(t)
	cache := func(group, version, name string) *watchcache.Cache {
		return s.Cache(s.Table.ByResource(schema.GroupVersionResource{Group: group, Version: version, Resource: name}))
	}
	w := &world{t: t, server: s, client: s.Clientset(), authz: node.New(node.Caches{
		Pods:                   cache("", "v1", "pods"),
		PersistentVolumeClaims: cache("", "v1", "persistentvolumeclaims"),
		PersistentVolumes:      cache("", "v1", "persistentvolumes"),
		VolumeAttachments:      cache("storage.k8s.io", "v1", "volumeattachments"),
		Prefix:                 s.Store.Prefix(),
	})}
	w.node("1", "a")
	w.node("2", "b")
	w.server.Settle(w.t)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) node(id, namespace string) {
	w.t.Helper()
	ctx := w.t.Context()
	_, err := w.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.client.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "account" + id}}, metav1.CreateOptions{})
	w.must(err)
	w.claim(namespace, "claim"+id, "volume"+id, id)
	w.claim(namespace, "p"+id+"-scratch", "scratch"+id, id)
	_, err = w.client.StorageV1().VolumeAttachments().Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "attachment" + id},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "example.com", NodeName: "n" + id,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("volume" + id)}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.pod(namespace, "p"+id, "n"+id, id, nil)
}

// claim makes a claim and the volume that is bound to it; the volume names a secret for publishing.
func (w *world) claim(namespace, name, volume, id string) {
	w.t.Helper()
	ctx := w.t.Context()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim, err := w.client.CoreV1().PersistentVolumeClaims(namespace).Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new(""),
			Resources: corev1.VolumeResourceRequirements{Requests: size}, VolumeName: volume,
		},
	}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: size,
			ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "example.com", VolumeHandle: volume,
				NodePublishSecretRef: &corev1.SecretReference{Namespace: namespace, Name: "publish-" + volume},
			}},
		},
	}, metav1.CreateOptions{})
	w.must(err)
}

func (w *world) pod(namespace, name, nodeName, id string, annotations map[string]string) {
	w.t.Helper()
	secret := func(name string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: "k"}}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: corev1.PodSpec{
			NodeName: nodeName, ServiceAccountName: "account" + id, AutomountServiceAccountToken: new(false),
			ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull" + id}},
			InitContainers:   []corev1.Container{{Name: "i", Image: "i", Env: []corev1.EnvVar{{Name: "E", ValueFrom: secret("init" + id)}}}},
			Containers: []corev1.Container{{
				Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "E", ValueFrom: secret("env" + id)}},
				EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "from" + id}}}},
			}},
			Volumes: []corev1.Volume{
				{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "secret" + id}}},
				{Name: "m", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "map" + id}}}},
				{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "projected" + id}}},
				}}}},
				{Name: "c", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim" + id}}},
				{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
					Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
				}}}},
			},
		},
	}
	if annotations != nil { // a mirror pod, as a kubelet would write it if nothing stopped it
		pod.Spec.ServiceAccountName = ""
	}
	_, err := w.client.CoreV1().Pods(namespace).Create(w.t.Context(), pod, metav1.CreateOptions{})
	w.must(err)
}

// ask is one request: VERB resource[.group][/subresource] [namespace/]name[?fieldSelector].
type ask struct{ verb, group, resource, sub, namespace, name, selector string }

func (a ask) attributes(user *authn.User) *authz.Attributes {
	attr := &authz.Attributes{User: user, Verb: a.verb, Group: a.group, Version: "v1", Resource: a.resource, Subresource: a.sub, Namespace: a.namespace, Name: a.name}
	if a.selector != "" {
		selects(attr, "limit=500&fieldSelector="+url.QueryEscape(a.selector))
	}
	return attr
}

// selects takes into attr what a query selects, as the server does. It says whether the server answers the query at all.
func selects(attr *authz.Attributes, query string) bool {
	options, err := request.ParseList(query)
	attr.Fields, attr.Labels = options.FieldSelector, options.LabelSelector
	return err == nil
}

func kubelet(id string) *authn.User {
	return &authn.User{Name: "system:node:n" + id, Groups: []string{authn.GroupNodes, authn.GroupAuthenticated}}
}

func TestAuthorizer(t *testing.T) {
	w := newWorld(t)
	const (
		related  = "no relationship found between node 'n1' and this object"
		selector = "can only list/watch pods with spec.nodeName field selector"
	)
	for _, tc := range []struct {
		ask
		allowed bool
		reason  string
	}{
		// What the own pod refers to, each way that it can be referred to.
		{ask{"get", "", "secrets", "", "a", "secret1", ""}, true, ""},
		{ask{"list", "", "secrets", "", "a", "secret1", "metadata.name=secret1"}, true, ""},
		{ask{"watch", "", "secrets", "", "a", "secret1", "metadata.name=secret1"}, true, ""},
		{ask{"get", "", "secrets", "", "a", "pull1", ""}, true, ""},
		{ask{"get", "", "secrets", "", "a", "init1", ""}, true, ""},
		{ask{"get", "", "secrets", "", "a", "env1", ""}, true, ""},
		{ask{"get", "", "secrets", "", "a", "projected1", ""}, true, ""},
		{ask{"get", "", "secrets", "", "a", "publish-volume1", ""}, true, ""},
		{ask{"get", "", "secrets", "", "a", "publish-scratch1", ""}, true, ""},
		{ask{"get", "", "configmaps", "", "a", "map1", ""}, true, ""},
		{ask{"get", "", "configmaps", "", "a", "from1", ""}, true, ""},
		{ask{"get", "", "persistentvolumeclaims", "", "a", "claim1", ""}, true, ""},
		{ask{"get", "", "persistentvolumeclaims", "", "a", "p1-scratch", ""}, true, ""},
		{ask{"patch", "", "persistentvolumeclaims", "status", "a", "claim1", ""}, true, ""},
		{ask{"get", "", "persistentvolumes", "", "", "volume1", ""}, true, ""},
		{ask{"get", "storage.k8s.io", "volumeattachments", "", "", "attachment1", ""}, true, ""},
		{ask{"get", "", "serviceaccounts", "", "a", "account1", ""}, true, ""},
		{ask{"create", "", "serviceaccounts", "token", "a", "account1", ""}, true, ""},

		// The same of the other node's pod; the right name in the wrong namespace; what nobody refers to.
		{ask{"get", "", "secrets", "", "b", "secret2", ""}, false, related},
		{ask{"list", "", "secrets", "", "b", "secret2", "metadata.name=secret2"}, false, related},
		{ask{"watch", "", "secrets", "", "b", "secret2", "metadata.name=secret2"}, false, related},
		{ask{"get", "", "secrets", "", "b", "secret1", ""}, false, related},
		{ask{"get", "", "secrets", "", "a", "unused", ""}, false, related},
		{ask{"get", "", "secrets", "", "b", "publish-volume2", ""}, false, related},
		{ask{"get", "", "configmaps", "", "b", "map2", ""}, false, related},
		{ask{"get", "", "configmaps", "", "a", "secret1", ""}, false, related},
		{ask{"get", "", "persistentvolumeclaims", "", "b", "claim2", ""}, false, related},
		{ask{"update", "", "persistentvolumeclaims", "status", "b", "claim2", ""}, false, related},
		{ask{"get", "", "persistentvolumes", "", "", "volume2", ""}, false, related},
		{ask{"get", "storage.k8s.io", "volumeattachments", "", "", "attachment2", ""}, false, related},
		{ask{"get", "", "serviceaccounts", "", "b", "account2", ""}, false, related},
		{ask{"create", "", "serviceaccounts", "token", "b", "account2", ""}, false, related},

		// Everything at once, and by verbs that a kubelet has no use for.
		{ask{"list", "", "secrets", "", "a", "", ""}, false, "No Object name found"},
		{ask{"list", "", "secrets", "", "", "", ""}, false, "can only read namespaced object of this type"},
		{ask{"watch", "", "secrets", "", "", "secret1", "metadata.name=secret1"}, false, "can only read namespaced object of this type"},
		{ask{"list", "", "secrets", "", "a", "", "spec.nodeName=n1"}, false, "No Object name found"},
		{ask{"patch", "", "secrets", "", "a", "secret1", ""}, false, "can only read resources of this type"},
		{ask{"delete", "", "configmaps", "", "a", "map1", ""}, false, "can only read resources of this type"},
		{ask{"get", "", "secrets", "x", "a", "secret1", ""}, false, "cannot read subresource"},
		{ask{"list", "", "persistentvolumes", "", "", "", ""}, false, "can only get individual resources of this type"},
		{ask{"update", "", "persistentvolumeclaims", "", "a", "claim1", ""}, false, "can only get individual resources of this type"},
		{ask{"get", "", "persistentvolumeclaims", "status", "a", "claim1", ""}, false, "can only get/update/patch this type"},
		{ask{"list", "storage.k8s.io", "volumeattachments", "", "", "", ""}, false, "can only get individual resources of this type"},
		{ask{"create", "", "serviceaccounts", "", "a", "", ""}, false, "can only create tokens for individual service accounts"},

		// Pods.
		{ask{"get", "", "pods", "", "a", "p1", ""}, true, ""},
		{ask{"list", "", "pods", "", "", "", "spec.nodeName=n1"}, true, ""},
		{ask{"watch", "", "pods", "", "", "", "spec.nodeName=n1,status.phase!=Failed"}, true, ""},
		{ask{"watch", "", "pods", "", "a", "p1", "metadata.name=p1"}, true, ""},
		{ask{"create", "", "pods", "", "a", "", ""}, true, ""},
		{ask{"delete", "", "pods", "", "b", "p2", ""}, true, ""}, // admission looks at which
		{ask{"patch", "", "pods", "status", "a", "p1", ""}, true, ""},
		{ask{"create", "", "pods", "eviction", "a", "p1", ""}, true, ""},
		{ask{"get", "", "pods", "", "b", "p2", ""}, false, related},
		{ask{"get", "", "pods", "", "b", "p1", ""}, false, related},
		{ask{"list", "", "pods", "", "", "", ""}, false, selector},
		{ask{"list", "", "pods", "", "", "", "spec.nodeName=n2"}, false, selector},
		{ask{"list", "", "pods", "", "", "", "spec.nodeName!=n2"}, false, selector},
		{ask{"list", "", "pods", "", "", "", "spec.nodeName="}, false, selector},
		{ask{"list", "", "pods", "", "", "", "spec.nodename=n1"}, false, selector},
		{ask{"list", "", "pods", "", "", "", "status.phase=spec.nodeName"}, false, selector},
		{ask{"list", "", "pods", "", "", "", "metadata.name=spec.nodeName\\=n1"}, false, selector},
		{ask{"watch", "", "pods", "", "b", "p2", "metadata.name=p2"}, false, selector},
		{ask{"watch", "", "pods", "", "", "p1", "metadata.name=p1"}, false, selector},
		{ask{"patch", "", "pods", "", "a", "p1", ""}, false, "node 'n1' cannot patch pods"},
		{ask{"create", "", "pods", "binding", "a", "p1", ""}, false, "node 'n1' cannot create pods/binding"},
		{ask{"get", "", "pods", "log", "a", "p1", ""}, false, "node 'n1' cannot get pods/log"},
		{ask{"deletecollection", "", "pods", "", "a", "", "spec.nodeName=n1"}, false, "node 'n1' cannot deletecollection pods"},

		// Its own Node, Lease and CSINode.
		{ask{"get", "", "nodes", "", "", "n1", ""}, true, ""},
		{ask{"watch", "", "nodes", "", "", "n1", "metadata.name=n1"}, true, ""},
		{ask{"create", "", "nodes", "", "", "", ""}, true, ""},
		{ask{"patch", "", "nodes", "status", "", "n1", ""}, true, ""},
		{ask{"get", "", "nodes", "", "", "n2", ""}, false, "node 'n1' cannot read 'n2', only its own Node object"},
		{ask{"list", "", "nodes", "", "", "", ""}, false, "node 'n1' cannot read '', only its own Node object"},
		{ask{"delete", "", "nodes", "", "", "n1", ""}, false, "node 'n1' cannot delete nodes"},
		{ask{"get", "coordination.k8s.io", "leases", "", "kube-node-lease", "n1", ""}, true, ""},
		{ask{"create", "coordination.k8s.io", "leases", "", "kube-node-lease", "", ""}, true, ""},
		{ask{"update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n2", ""}, false, "can only access node lease with the same name as the requesting node"},
		{ask{"update", "coordination.k8s.io", "leases", "", "kube-system", "n1", ""}, false, `can only access leases in the "kube-node-lease" system namespace`},
		{ask{"list", "coordination.k8s.io", "leases", "", "kube-node-lease", "", ""}, false, "can only get, create, update, patch, or delete a node lease"},
		{ask{"get", "storage.k8s.io", "csinodes", "", "", "n1", ""}, true, ""},
		{ask{"create", "storage.k8s.io", "csinodes", "", "", "", ""}, true, ""},
		{ask{"patch", "storage.k8s.io", "csinodes", "", "", "n2", ""}, false, "can only access CSINode with the same name as the requesting node"},
		{ask{"list", "storage.k8s.io", "csinodes", "", "", "", ""}, false, "can only get, create, update, patch, or delete a CSINode"},

		// Devices and certificates.
		{ask{"create", "resource.k8s.io", "resourceslices", "", "", "", ""}, true, ""},
		{ask{"list", "resource.k8s.io", "resourceslices", "", "", "", "spec.nodeName=n1"}, true, ""},
		{ask{"deletecollection", "resource.k8s.io", "resourceslices", "", "", "", "spec.nodeName=n1"}, true, ""},
		{ask{"deletecollection", "resource.k8s.io", "resourceslices", "", "", "", "spec.nodeName=n2"}, false, "can only list/watch/deletecollection resourceslices with spec.nodeName field selector"},
		{ask{"get", "resource.k8s.io", "resourceslices", "", "", "x", ""}, false, related},
		{ask{"get", "resource.k8s.io", "resourceclaims", "", "a", "x", ""}, false, related},
		{ask{"create", "certificates.k8s.io", "podcertificaterequests", "", "a", "", ""}, true, ""},
		{ask{"watch", "certificates.k8s.io", "podcertificaterequests", "", "", "", "spec.nodeName=n1"}, true, ""},
		{ask{"watch", "certificates.k8s.io", "podcertificaterequests", "", "", "", ""}, false, "can only list/watch podcertificaterequests with spec.nodeName field selector"},

		// What needs no look at objects.
		{ask{"list", "", "services", "", "", "", ""}, true, ""},
		{ask{"create", "", "events", "", "default", "", ""}, true, ""},
		{ask{"create", "certificates.k8s.io", "certificatesigningrequests", "", "", "", ""}, true, ""},
		{ask{"create", "authentication.k8s.io", "tokenreviews", "", "", "", ""}, true, ""},
		{ask{"list", "apps", "deployments", "", "", "", ""}, false, ""},
		{ask{"create", "rbac.authorization.k8s.io", "clusterrolebindings", "", "", "", ""}, false, ""},
		{ask{"delete", "", "namespaces", "", "a", "a", ""}, false, ""},
	} {
		allowed, reason, err := w.authz.Authorize(t.Context(), tc.attributes(kubelet("1")))
		if allowed != tc.allowed || reason != tc.reason || err != nil {
			t.Errorf("%+v: got %t %q %v, want %t %q", tc.ask, allowed, reason, err, tc.allowed, tc.reason)
		}
	}
}

// Of a repeated or broken selector counts what the list itself goes by.
func TestAuthorizer_ForgedSelector(t *testing.T) {
	w := newWorld(t)
	for _, tc := range []struct {
		query   string
		allowed bool
	}{
		{"fieldSelector=spec.nodeName%3Dn1", true},
		{"fieldSelector=spec.nodeName%3Dn1&fieldSelector=spec.nodeName%3Dn2", true}, // the first counts
		{"fieldSelector=spec.nodeName%3Dn2&fieldSelector=spec.nodeName%3Dn1", false},
		{"fieldSelector=&fieldSelector=spec.nodeName%3Dn1", false},
		{"fieldselector=spec.nodeName%3Dn1", false},
		{"fieldSelector=spec.nodeName%3Dn1%2C", true},
		{"fieldSelector=spec.nodeName%3Dn1%2Cx", false},
		{"fieldSelector=%zz%3Dn1", false},
		{"labelSelector=spec.nodeName%3Dn1", false},
	} {
		attr := ask{verb: "list", resource: "pods"}.attributes(kubelet("1"))
		answered := selects(attr, tc.query)
		if allowed, reason, err := w.authz.Authorize(t.Context(), attr); (answered && allowed) != tc.allowed || err != nil {
			t.Errorf("%s: got %t %q %v", tc.query, allowed, reason, err)
		}
	}
}

func TestAuthorizer_OthersAreNotItsBusiness(t *testing.T) {
	a := node.New(node.Caches{})
	for _, user := range []*authn.User{
		{Name: "system:node:n1", Groups: []string{authn.GroupAuthenticated}},
		{Name: "n1", Groups: []string{authn.GroupNodes}},
		{Name: "system:nodes:n1", Groups: []string{authn.GroupNodes}},
		{Name: "joe"},
	} {
		if allowed, reason, err := a.Authorize(context.Background(), ask{verb: "list", resource: "services"}.attributes(user)); allowed || reason != "" || err != nil {
			t.Errorf("%v: got %t %q %v", user, allowed, reason, err)
		}
	}
	nameless := &authn.User{Name: "system:node:", Groups: []string{authn.GroupNodes}}
	allowed, reason, err := a.Authorize(context.Background(), ask{verb: "list", resource: "services"}.attributes(nameless))
	if allowed || reason != `unknown node for user "system:node:"` || err != nil {
		t.Errorf("a node without a name: got %t %q %v", allowed, reason, err)
	}
}

// What a node may see follows its pods: it begins with a pod and ends with it, and a mirror pod, which a kubelet writes itself,
// opens nothing.
func TestAuthorizer_FollowsPods(t *testing.T) {
	w := newWorld(t)
	may := func(id, namespace, secret string) bool {
		t.Helper()
		allowed, _, err := w.authz.Authorize(t.Context(), ask{verb: "get", resource: "secrets", namespace: namespace, name: secret}.attributes(kubelet(id)))
		w.must(err)
		return allowed
	}
	pods := w.client.CoreV1().Pods("a")
	if may("2", "a", "env1") {
		t.Error("before there is a pod on it, the node may read its secret")
	}
	w.pod("a", "moved", "n2", "1", nil)
	w.server.Settle(w.t)
	if !may("2", "a", "env1") {
		t.Error("with the pod on it, the node may not read its secret")
	}
	pod, err := pods.Get(t.Context(), "moved", metav1.GetOptions{})
	w.must(err)
	pod.Status.Phase = corev1.PodSucceeded
	_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	w.must(err)
	w.server.Settle(w.t)
	if may("2", "a", "env1") {
		t.Error("after the pod has succeeded, the node may still read its secret")
	}
	now := int64(0)
	w.must(pods.Delete(t.Context(), "p1", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	w.server.Settle(w.t)
	if may("1", "a", "env1") {
		t.Error("after the pod is gone, the node may still read its secret")
	}
	w.pod("a", "mirror", "n1", "1", map[string]string{corev1.MirrorPodAnnotationKey: "x"})
	w.server.Settle(w.t)
	if may("1", "a", "env1") {
		t.Error("a mirror pod lets the node read a secret")
	}
}
