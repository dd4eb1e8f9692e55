package serviceaccount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/informer"
	"vigil/internal/accounttoken"
	"vigil/internal/panics"
)

// CleanerConfig says what the cleaner works with. Client and Informers are needed.
type CleanerConfig struct {
	Client    kubernetes.Interface
	Informers *informer.Factory // run by the caller
	// CleanUpPeriod is how long a token is unused before it is marked invalid, and then before it is deleted. 0: a year.
	CleanUpPeriod time.Duration
	Logger        *slog.Logger
	Now           func() time.Time // nil: time.Now
}

// Cleaner removes tokens that Kubernetes before 1.24 has made for each service account and nobody uses: first it marks their Secret
// invalid, upon which the API server refuses the token and who needs it can remove the mark, and later it deletes the Secret. Secrets
// that people made, that a pod mounts, or that are too young are left alone, and so is everything while the API server has not
// watched the use of tokens for long enough. Follows upstream's LegacySATokenCleaner.
type Cleaner struct {
	config   CleanerConfig
	secrets  informer.Lister[*corev1.Secret]
	accounts informer.Lister[*corev1.ServiceAccount]
	pods     informer.Lister[*corev1.Pod]
}

// cleanEvery is how often tokens are looked at: their use is known by days.
const cleanEvery = 24 * time.Hour

// NewCleaner must be called before the informers run.
func NewCleaner(config CleanerConfig) *Cleaner {
	if config.CleanUpPeriod == 0 {
		config.CleanUpPeriod = 365 * 24 * time.Hour
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	pods := informer.ResourceOf[*corev1.Pod]()
	pods.DropManagedFields = true
	return &Cleaner{
		config: config, secrets: tokenSecrets(config.Informers), accounts: allAccounts(config.Informers),
		pods: informer.ListerFor[*corev1.Pod](config.Informers.Informer(pods)),
	}
}

// Run cleans once a day until ctx ends.
func (c *Cleaner) Run(ctx context.Context) error {
	for _, i := range []*informer.Informer{c.secrets.Informer(), c.accounts.Informer(), c.pods.Informer()} {
		if err := i.WaitForSync(ctx); err != nil {
			return err
		}
	}
	ticker := time.NewTicker(cleanEvery)
	defer ticker.Stop()
	for {
		if err := panics.Try(c.config.Logger, panics.Reconcile, func() error { return c.Clean(ctx) }); err != nil && ctx.Err() == nil {
			c.config.Logger.Warn("the controller could not clean up all unused service account tokens, and tries again", "after", cleanEvery, "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// Clean looks at all tokens once.
func (c *Cleaner) Clean(ctx context.Context) error {
	now := c.config.Now().UTC()
	since, err := c.trackedSince(ctx)
	if err != nil {
		return err
	}
	before := now.Add(-c.config.CleanUpPeriod)
	if since.After(before) {
		return nil // what was not used since then may have been used before
	}
	secrets, err := c.secrets.List("", nil)
	if err != nil {
		return err
	}
	var errs []error
	for _, secret := range secrets {
		if !c.unused(secret, before) {
			continue
		}
		marked := secret.Labels[accounttoken.InvalidSinceLabel]
		_, err := time.Parse(accounttoken.DateFormat, marked)
		switch {
		case err != nil:
			errs = append(errs, c.mark(ctx, secret, now.Format(accounttoken.DateFormat)))
		case marked < before.Format(accounttoken.DateFormat):
			errs = append(errs, c.remove(ctx, secret))
		}
	}
	return errors.Join(errs...)
}

// trackedSince is the first moment since which the API server has surely noted each use of a token.
func (c *Cleaner) trackedSince(ctx context.Context) (time.Time, error) {
	config, err := c.config.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, accounttoken.TrackingConfigMap, metav1.GetOptions{})
	if err != nil {
		return time.Time{}, fmt.Errorf("get config map: %w", err)
	}
	day, err := time.Parse(accounttoken.DateFormat, config.Data[accounttoken.TrackingSince])
	if err != nil {
		return time.Time{}, fmt.Errorf("config map %s/%s: %w", metav1.NamespaceSystem, accounttoken.TrackingConfigMap, err)
	}
	return day.AddDate(0, 0, 1), nil
}

// unused says whether a Secret is one that was made for its service account, was there before a time, and was not used after it.
func (c *Cleaner) unused(secret *corev1.Secret, before time.Time) bool {
	if secret.DeletionTimestamp != nil || !secret.CreationTimestamp.Time.Before(before) {
		return false
	}
	if used, ok := secret.Labels[accounttoken.LastUsedLabel]; ok {
		if _, err := time.Parse(accounttoken.DateFormat, used); err != nil || used >= before.Format(accounttoken.DateFormat) {
			return false
		}
	}
	account, err := c.accounts.Get(secret.Namespace, secret.Annotations[corev1.ServiceAccountNameKey])
	uid := secret.Annotations[corev1.ServiceAccountUIDKey]
	if err != nil || uid != "" && uid != string(account.UID) {
		return false
	}
	if !slices.ContainsFunc(account.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == secret.Name }) {
		return false
	}
	pods, err := c.pods.List(secret.Namespace, nil)
	return err == nil && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return uses(pod, secret.Name) })
}

// uses says whether a pod names a Secret.
func uses(pod *corev1.Pod, secret string) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Secret != nil && v.Secret.SecretName == secret {
			return true
		}
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool { return s.Secret != nil && s.Secret.Name == secret }) {
			return true
		}
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			named := func(e corev1.EnvFromSource) bool { return e.SecretRef != nil && e.SecretRef.Name == secret }
			keyed := func(e corev1.EnvVar) bool {
				return e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil && e.ValueFrom.SecretKeyRef.Name == secret
			}
			if slices.ContainsFunc(containers[i].EnvFrom, named) || slices.ContainsFunc(containers[i].Env, keyed) {
				return true
			}
		}
	}
	return false
}

// mark has the API server refuse the token of a Secret.
func (c *Cleaner) mark(ctx context.Context, secret *corev1.Secret, today string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": secret.UID, "resourceVersion": secret.ResourceVersion, "labels": map[string]string{accounttoken.InvalidSinceLabel: today},
	}})
	if err != nil {
		return err
	}
	_, err = c.config.Client.CoreV1().Secrets(secret.Namespace).Patch(ctx, secret.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err): // it is being used, or has gone
		return nil
	case err != nil:
		return fmt.Errorf("mark secret %s/%s invalid: %w", secret.Namespace, secret.Name, err)
	}
	c.config.Logger.Info("the controller marked a service account token invalid that nobody uses; remove its label to use it, else it is deleted later",
		"namespace", secret.Namespace, "secret", secret.Name, "label", accounttoken.InvalidSinceLabel)
	return nil
}

func (c *Cleaner) remove(ctx context.Context, secret *corev1.Secret) error {
	unchanged := &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion}
	err := c.config.Client.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{Preconditions: unchanged})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	c.config.Logger.Info("the controller deleted a service account token that nobody uses", "namespace", secret.Namespace, "secret", secret.Name)
	return nil
}
