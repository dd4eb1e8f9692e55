package core

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/kinds"
	"vigil/kinds/authentication"
	"vigil/kinds/column"
	"vigil/object"
)

// ServiceAccount is the row of serviceaccounts. Tokens are issued by package apiserver/serviceaccount.
func ServiceAccount() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
		Resource:   "serviceaccounts",
		Singular:   "serviceaccount",
		ShortNames: []string{"sa"},
		Namespaced: true,
		Path:       "serviceaccounts",
		Type: &object.Type{
			APIVersion: "v1", Kind: "ServiceAccount", Namespaced: true,
			New: func() runtime.Object { return &corev1.ServiceAccount{} },
		},
		New:     func() kinds.Object { return &corev1.ServiceAccount{} },
		NewList: func() runtime.Object { return &corev1.ServiceAccountList{} },

		PrepareCreate: func(obj kinds.Object) { keepSecretNamesOnly(obj.(*corev1.ServiceAccount)) },
		PrepareUpdate: func(obj, _ kinds.Object) { keepSecretNamesOnly(obj.(*corev1.ServiceAccount)) },
		Warnings:      serviceAccountWarnings,

		UnconditionalUpdate: true,
		ReturnsDeleted:      true,

		Subresources: []kinds.Subresource{authentication.TokenSubresource()},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Secrets", corev1.ServiceAccount{}.SwaggerDoc()["secrets"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			sa := obj.(*corev1.ServiceAccount)
			return []any{sa.Name, int64(len(sa.Secrets)), column.Since(sa.CreationTimestamp, now)}
		},
	}
}

// keepSecretNamesOnly drops all but the names from the references: secrets live in the account's own namespace.
func keepSecretNamesOnly(sa *corev1.ServiceAccount) {
	for i, ref := range sa.Secrets {
		sa.Secrets[i] = corev1.ObjectReference{Name: ref.Name}
	}
}

const mountableSecretsAnnotation = "kubernetes.io/enforce-mountable-secrets"

// serviceAccountWarnings speaks when the deprecated annotation is new.
func serviceAccountWarnings(obj, old kinds.Object) []string {
	if _, found := obj.GetAnnotations()[mountableSecretsAnnotation]; !found {
		return nil
	}
	if old != nil {
		if _, found := old.GetAnnotations()[mountableSecretsAnnotation]; found {
			return nil
		}
	}
	return []string{fmt.Sprintf("metadata.annotations[%s]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets", mountableSecretsAnnotation)}
}
