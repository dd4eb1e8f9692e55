package plugins

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"

	"vigil/apiserver/admission"
	"vigil/apiserver/admission/internal/references"
	"vigil/kinds"
)

const (
	defaultAccount = "default"
	// tokenPath is where containers find the token of their service account.
	tokenPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenVolume begins the name of the volume with the token; five random characters follow.
	tokenVolume = "kube-api-access-"
	// tokenSeconds is the life of the token. The odd seconds tell such tokens from others that are asked for an hour.
	tokenSeconds = 60*60 + 7
	rootCA       = "kube-root-ca.crt"

	enforceMountable = "kubernetes.io/enforce-mountable-secrets"

	// accountAttempts and accountPause say how long a pod waits for the default account of a new namespace, which a controller makes.
	accountAttempts = 20
	accountPause    = 100 * time.Millisecond
)

// ServiceAccount gives pods their service account, which must exist, its image pull secrets, and a volume with a token of it.
type ServiceAccount struct{ Reader admission.Reader }

// Name implements admission.Plugin.
func (ServiceAccount) Name() string { return "ServiceAccount" }

// Handles implements admission.Plugin.
func (ServiceAccount) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	return k.GroupResource() == pods && (subresource == "" && op == admission.Create || subresource == "ephemeralcontainers" && op == admission.Update)
}

// Admit implements admission.Mutator.
func (p ServiceAccount) Admit(ctx context.Context, a *admission.Attributes) error {
	pod := podOf(a)
	if pod == nil || a.Operation != admission.Create || isMirror(pod) {
		return nil // a mirror pod is as its kubelet has it
	}
	if pod.Spec.ServiceAccountName == "" {
		pod.Spec.ServiceAccountName = defaultAccount
	}
	pod.Spec.DeprecatedServiceAccount = pod.Spec.ServiceAccountName
	account, err := p.account(ctx, a, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if automounts(account, pod) {
		mountToken(pod)
	}
	if len(pod.Spec.ImagePullSecrets) == 0 {
		pod.Spec.ImagePullSecrets = slices.Clone(account.ImagePullSecrets)
	}
	return nil
}

// Validate implements admission.Validator.
func (p ServiceAccount) Validate(ctx context.Context, a *admission.Attributes) error {
	pod := podOf(a)
	switch {
	case pod == nil:
		return nil
	case a.Operation == admission.Create && isMirror(pod):
		return checkMirror(a, pod)
	}
	account, err := p.account(ctx, a, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	if enforce, _ := strconv.ParseBool(account.Annotations[enforceMountable]); !enforce {
		return nil
	}
	if err := limitSecrets(account, pod); err != nil {
		return admission.Forbidden(a, err)
	}
	return nil
}

func isMirror(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// account finds a service account. The one that every namespace has is waited for a while.
func (p ServiceAccount) account(ctx context.Context, a *admission.Attributes, name string) (*corev1.ServiceAccount, error) {
	obj, err := admission.Find(ctx, p.Reader, serviceAccounts, a.Namespace, name)
	for attempt := 1; apierrors.IsNotFound(err) && name == defaultAccount && attempt < accountAttempts; attempt++ {
		timer := time.NewTimer(accountPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		obj, err = admission.Find(ctx, p.Reader, serviceAccounts, a.Namespace, name)
	}
	if apierrors.IsNotFound(err) {
		err = apierrors.NewNotFound(schema.GroupResource{Resource: "serviceaccount"}, name)
	}
	if err != nil {
		return nil, admission.Forbidden(a, fmt.Errorf("error looking up service account %s/%s: %w", a.Namespace, name, err))
	}
	return obj.(*corev1.ServiceAccount), nil
}

func automounts(account *corev1.ServiceAccount, pod *corev1.Pod) bool {
	switch {
	case pod.Spec.AutomountServiceAccountToken != nil:
		return *pod.Spec.AutomountServiceAccountToken
	case account.AutomountServiceAccountToken != nil:
		return *account.AutomountServiceAccountToken
	}
	return true
}

// mountToken has every container that has nothing there itself find a token, and adds the volume if one needs it.
func mountToken(pod *corev1.Pod) {
	mount := corev1.VolumeMount{ReadOnly: true, MountPath: tokenPath}
	for i := range pod.Spec.Volumes {
		if name := pod.Spec.Volumes[i].Name; strings.HasPrefix(name, tokenVolume) {
			mount.Name = name
			break
		}
	}
	there := mount.Name != ""
	if !there {
		mount.Name = tokenVolume + rand.String(5)
	}
	needed := false
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tokenPath }) {
				continue
			}
			c.VolumeMounts = append(c.VolumeMounts, mount)
			needed = true
		}
	}
	if needed && !there {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: mount.Name, VolumeSource: tokenSource()})
	}
}

// tokenSource is what the volume shows: the token, whom to trust, and the namespace.
func tokenSource() corev1.VolumeSource {
	mode, seconds := corev1.ProjectedVolumeSourceDefaultMode, int64(tokenSeconds)
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &seconds}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: rootCA},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{
				Items: []corev1.DownwardAPIVolumeFile{{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}},
			}},
		},
	}}
}

// checkMirror keeps pods that nobody but their kubelet has made from what only the server can give.
func checkMirror(a *admission.Attributes, pod *corev1.Pod) error {
	if pod.Spec.ServiceAccountName != "" {
		return admission.Refuse(a, "a mirror pod may not reference service accounts")
	}
	refs := references.Of(pod)
	switch {
	case refs.Secrets:
		return admission.Refuse(a, "a mirror pod may not reference secrets")
	case refs.ConfigMaps:
		return admission.Refuse(a, "a mirror pod may not reference configmaps")
	case refs.Tokens:
		return admission.Refuse(a, "a mirror pod may not use ServiceAccountToken volume projections")
	}
	return nil
}

// limitSecrets lets a pod use the secrets that its service account names, and no others.
func limitSecrets(account *corev1.ServiceAccount, pod *corev1.Pod) error {
	named := map[string]bool{}
	for _, r := range account.Secrets {
		named[r.Name] = true
	}
	mountable := func(name string) bool { return named[name] }
	for i := range pod.Spec.Volumes {
		if s := pod.Spec.Volumes[i].Secret; s != nil && !mountable(s.SecretName) {
			return fmt.Errorf("volume with secret.secretName=%q is not allowed because service account %s does not reference that secret", s.SecretName, account.Name)
		}
	}
	check := func(what, name string, env []corev1.EnvVar) error {
		for i := range env {
			from := env[i].ValueFrom
			if from != nil && from.SecretKeyRef != nil && !mountable(from.SecretKeyRef.Name) {
				return fmt.Errorf("%s %s with envVar %s referencing secret.secretName=%q is not allowed because service account %s does not reference that secret",
					what, name, env[i].Name, from.SecretKeyRef.Name, account.Name)
			}
		}
		return nil
	}
	var errs []error
	for i := range pod.Spec.InitContainers {
		errs = append(errs, check("init container", pod.Spec.InitContainers[i].Name, pod.Spec.InitContainers[i].Env))
	}
	for i := range pod.Spec.Containers {
		errs = append(errs, check("container", pod.Spec.Containers[i].Name, pod.Spec.Containers[i].Env))
	}
	for i := range pod.Spec.EphemeralContainers {
		errs = append(errs, check("ephemeral container", pod.Spec.EphemeralContainers[i].Name, pod.Spec.EphemeralContainers[i].Env))
	}
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	pullable := map[corev1.LocalObjectReference]bool{}
	for _, ref := range account.ImagePullSecrets {
		pullable[ref] = true
	}
	for i, ref := range pod.Spec.ImagePullSecrets {
		if !pullable[ref] {
			return fmt.Errorf(`imagePullSecrets[%d].name="%s" is not allowed because service account %s does not reference that imagePullSecret`, i, ref.Name, account.Name)
		}
	}
	return nil
}
