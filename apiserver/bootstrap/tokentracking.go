package bootstrap

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/accounttoken"
)

// ensureTokenTracking keeps the ConfigMap that says since when the uses of tokens in Secrets are noted: without it nobody may conclude
// that one is not used (upstream's controlplane/controller/legacytokentracking).
func (b *Bootstrap) ensureTokenTracking(ctx context.Context) error {
	today := time.Now().UTC().Format(accounttoken.DateFormat)
	have, err := b.newest(configMaps, metav1.NamespaceSystem, accounttoken.TrackingConfigMap)
	if err != nil {
		return err
	}
	if have == nil {
		return b.create(ctx, configMaps, metav1.NamespaceSystem, accounttoken.TrackingConfigMap, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Name: accounttoken.TrackingConfigMap, Namespace: metav1.NamespaceSystem},
			Data:       map[string]string{accounttoken.TrackingSince: today},
		})
	}
	now := have.DeepCopyObject().(*corev1.ConfigMap)
	if _, err := time.Parse(accounttoken.DateFormat, now.Data[accounttoken.TrackingSince]); err == nil {
		return nil
	}
	if now.Data == nil {
		now.Data = map[string]string{}
	}
	now.Data[accounttoken.TrackingSince] = today
	return b.update(ctx, configMaps, metav1.NamespaceSystem, accounttoken.TrackingConfigMap, "", now)
}
