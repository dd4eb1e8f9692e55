package bootstrap

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// authenticationName is the ConfigMap from which servers behind this one learn whom it lets in, and how it names users to them
// (upstream's controller/clusterauthenticationtrust).
const authenticationName = "extension-apiserver-authentication"

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

// ensureAuthentication keeps the ConfigMap as the configuration says. Keys that others have added stay.
func (b *Bootstrap) ensureAuthentication(ctx context.Context) error {
	if b.config.Authentication == nil {
		return nil
	}
	want := b.config.Authentication()
	if len(want) == 0 {
		return nil
	}
	have, err := b.newest(configMaps, metav1.NamespaceSystem, authenticationName)
	if err != nil {
		return err
	}
	if have == nil {
		return b.create(ctx, configMaps, metav1.NamespaceSystem, authenticationName, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: authenticationName, Namespace: metav1.NamespaceSystem},
			Data:       want,
		})
	}
	now := have.DeepCopyObject().(*corev1.ConfigMap)
	merged := maps.Clone(now.Data)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, want)
	if maps.Equal(merged, now.Data) {
		return nil
	}
	now.Data = merged
	return b.update(ctx, configMaps, metav1.NamespaceSystem, authenticationName, "", now)
}
