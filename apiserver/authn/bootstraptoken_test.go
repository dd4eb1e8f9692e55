package authn_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/authn"
)

func TestBootstrapTokens(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	good := func() *corev1.Secret {
		return &corev1.Secret{Type: corev1.SecretTypeBootstrapToken, Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
			"expiration": []byte("2030-01-01T01:00:00Z"), "auth-extra-groups": []byte("system:bootstrappers:kubeadm:default-node-token"),
		}}
	}
	set := func(key, value string) func(*corev1.Secret) {
		return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
	}
	for _, tc := range []struct {
		name   string
		token  string
		change func(*corev1.Secret)
		groups []string // nil: refused
	}{
		{"good", "abcdef.0123456789abcdef", func(*corev1.Secret) {}, []string{"system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:authenticated"}},
		{"without more groups", "abcdef.0123456789abcdef", set("auth-extra-groups", ""), []string{"system:bootstrappers", "system:authenticated"}},
		{"without an end", "abcdef.0123456789abcdef", set("expiration", ""), []string{"system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token", "system:authenticated"}},
		{"wrong secret", "abcdef.0123456789abcdee", func(*corev1.Secret) {}, nil},
		{"wrong form", "ABCDEF.0123456789abcdef", func(*corev1.Secret) {}, nil},
		{"no such token", "aaaaaa.0123456789abcdef", func(*corev1.Secret) {}, nil},
		{"ended", "abcdef.0123456789abcdef", set("expiration", "2029-12-31T23:59:59Z"), nil},
		{"end nobody can read", "abcdef.0123456789abcdef", set("expiration", "soon"), nil},
		{"not for this", "abcdef.0123456789abcdef", set("usage-bootstrap-authentication", "false"), nil},
		{"other id", "abcdef.0123456789abcdef", set("token-id", "aaaaaa"), nil},
		{"group that is not to be had", "abcdef.0123456789abcdef", set("auth-extra-groups", "system:masters"), nil},
		{"other type", "abcdef.0123456789abcdef", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, nil},
		{"going", "abcdef.0123456789abcdef", func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: now} }, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tokens := &authn.BootstrapTokens{Audiences: []string{"api"}, Now: func() time.Time { return now }, Secret: func(_ context.Context, name string) (*corev1.Secret, error) {
				if name != "bootstrap-token-abcdef" {
					return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
				}
				s := good()
				tc.change(s)
				return s, nil
			}}
			user, _, err := tokens.AuthenticateToken(t.Context(), tc.token, nil)
			if tc.groups == nil {
				if !errors.Is(err, authn.ErrUnknownToken) {
					t.Errorf("got %v, %v", user, err)
				}
				return
			}
			if err != nil || user.Name != "system:bootstrap:abcdef" || !slices.Equal(user.Groups, tc.groups) {
				t.Errorf("got %+v, %v", user, err)
			}
		})
	}
}
