package cluster

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver/connect"
	"vigil/pki"
)

// KubeletClientConfig says how an API server reaches kubelets.
type KubeletClientConfig = connect.Kubelets

// kubeletClient is how the API server of `vigil up` reaches kubelets: with kubeadm's certificate and addresses, and only those that the
// cluster's authority has signed.
func kubeletClient(given KubeletClientConfig, certificates *pki.Set) KubeletClientConfig {
	if given.CertFile == "" {
		given.CertFile, given.KeyFile = certificates.Path("apiserver-kubelet-client.crt"), certificates.Path("apiserver-kubelet-client.key")
	}
	if given.CAFile == "" {
		given.CAFile = certificates.Path("ca.crt")
	}
	if slices.Contains(given.PreferredAddressTypes, "Hostname") { // which nobody resolves
		given.PreferredAddressTypes = []string{"InternalIP", "ExternalIP", "Hostname"}
	}
	return given
}

// letServerAsk gives the API server's user the rights that it needs at kubelets: those of system:kubelet-api-admin. A binding that is there is left as it is.
func letServerAsk(ctx context.Context, dir string) error {
	client, _, err := adminClient(dir)
	if err != nil {
		return err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "vigil:kubelet-api-admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: pki.KubeletClient}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("give the API server its rights at kubelets: %w", err)
	}
	return nil
}
