package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"vigil/controllers/bootstraptoken"
	"vigil/kubelet/node"
)

// joinGroup is the group of tokens by which nodes join, kubeadm's.
const joinGroup = "system:bootstrappers:kubeadm:default-node-token"

// prepareJoin lets nodes join with a bootstrap token, as kubeadm does: they may ask for certificates, which are approved without a
// person, and find the cluster in the ConfigMap kube-public/cluster-info, which everybody may read.
func (c *UpConfig) prepareJoin(ctx context.Context, dir string) error {
	client, admin, err := adminClient(dir)
	if err != nil {
		return err
	}
	cluster := admin.Contexts[admin.CurrentContext].Cluster
	info := clientcmdapi.NewConfig()
	info.Clusters[""] = admin.Clusters[cluster]
	data, err := clientcmd.Write(*info)
	if err != nil {
		return err
	}
	ignore := func(what string, err error) error {
		if err == nil || apierrors.IsAlreadyExists(err) {
			return nil
		}
		return fmt.Errorf("let nodes join: make %s: %w", what, err)
	}
	_, err = client.CoreV1().ConfigMaps(metav1.NamespacePublic).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: bootstraptoken.ClusterInfo}, Data: map[string]string{bootstraptoken.KubeconfigKey: string(data)},
	}, metav1.CreateOptions{})
	if err := ignore("cluster-info", err); err != nil {
		return err
	}
	const reader = "kubeadm:bootstrap-signer-clusterinfo"
	_, err = client.RbacV1().Roles(metav1.NamespacePublic).Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: reader},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{bootstraptoken.ClusterInfo}}},
	}, metav1.CreateOptions{})
	if err := ignore(reader, err); err != nil {
		return err
	}
	_, err = client.RbacV1().RoleBindings(metav1.NamespacePublic).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: reader},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: reader},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "system:anonymous"}},
	}, metav1.CreateOptions{})
	if err := ignore(reader, err); err != nil {
		return err
	}
	if c.Runtime != node.RuntimeSimulated {
		if err := letNodesSeeNodes(ctx, client); err != nil {
			return err
		}
		if err := makeStorageClass(ctx, client); err != nil {
			return err
		}
	}
	const requests = "system:certificates.k8s.io:certificatesigningrequests:"
	for _, b := range []struct{ name, role, group string }{
		{"kubeadm:kubelet-bootstrap", "system:node-bootstrapper", joinGroup},
		{"kubeadm:node-autoapprove-bootstrap", requests + "nodeclient", joinGroup},
		{"kubeadm:node-autoapprove-certificate-rotation", requests + "selfnodeclient", "system:nodes"},
	} {
		_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: b.name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.role},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: b.group}},
		}, metav1.CreateOptions{})
		if err := ignore(b.name, err); err != nil {
			return err
		}
	}
	return nil
}

// CreateToken makes a bootstrap token that is good for ttl (0: for ever) and returns it with a kubeconfig for
// `vigil kubelet --bootstrap-kubeconfig`. dir is the data directory of a running cluster. server is the API server's URL in the
// kubeconfig; "": one that other machines reach, if the server listens there, or else the one of this machine alone.
func CreateToken(ctx context.Context, dir string, ttl time.Duration, server string) (token string, kubeconfig []byte, err error) {
	client, admin, err := adminClient(dir)
	if err != nil {
		return "", nil, err
	}
	id, key := randomText(6), randomText(16)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": key, "usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true",
			"auth-extra-groups": joinGroup,
		},
	}
	if ttl > 0 {
		secret.StringData["expiration"] = time.Now().Add(ttl).UTC().Format(time.RFC3339)
	}
	if _, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
		return "", nil, fmt.Errorf("make a bootstrap token: %w", err)
	}
	current := admin.Contexts[admin.CurrentContext]
	config := clientcmdapi.NewConfig()
	cluster := *admin.Clusters[current.Cluster]
	if server == "" {
		server = serverForOthers(ctx, client)
	}
	cluster.Server = cmp.Or(server, cluster.Server)
	config.Clusters[current.Cluster] = &cluster
	config.AuthInfos["bootstrap"] = &clientcmdapi.AuthInfo{Token: id + "." + key}
	config.Contexts["bootstrap"] = &clientcmdapi.Context{Cluster: current.Cluster, AuthInfo: "bootstrap"}
	config.CurrentContext = "bootstrap"
	kubeconfig, err = clientcmd.Write(*config)
	return id + "." + key, kubeconfig, err
}

// serverForOthers is the URL under which other machines reach the API server, "" when it does not listen there.
func serverForOthers(ctx context.Context, client kubernetes.Interface) string {
	slices, err := client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=kubernetes"})
	if err != nil {
		return ""
	}
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			for _, port := range slice.Ports {
				if port.Port == nil || len(endpoint.Addresses) == 0 {
					continue
				}
				address := net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*port.Port)))
				conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
				if err == nil {
					conn.Close()
					return "https://" + address
				}
			}
		}
	}
	return ""
}

// adminClient is an administrator's client of the cluster in a data directory, and its kubeconfig.
func adminClient(dir string) (kubernetes.Interface, *clientcmdapi.Config, error) {
	file := filepath.Join(dir, "admin.conf")
	admin, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, nil, err
	}
	if admin.Contexts[admin.CurrentContext] == nil {
		return nil, nil, fmt.Errorf("kubeconfig %s has no current context", file)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, nil, err
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	return client, admin, err
}

// randomText is n of the characters that tokens have.
func randomText(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	out := make([]byte, 0, n)
	for len(out) < n {
		var b [1]byte
		rand.Read(b[:])
		if i := int(b[0] & 63); i < len(letters) { // each as likely as the others
			out = append(out, letters[i])
		}
	}
	return string(out)
}
