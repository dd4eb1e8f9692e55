package credentials

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// dockerConfig is what is in the files of docker's client: registries and who logs in to them.
type dockerConfig map[string]struct {
	Username, Password string
	Auth               string // "user:password" in base64; counts instead of both
}

// AddSecret puts in what an image pull secret holds. A secret of another type holds nothing.
func (k *Keyring) AddSecret(secret *corev1.Secret) error {
	config, err := readSecret(secret)
	if err != nil {
		return fmt.Errorf("secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	source := Source{Namespace: secret.Namespace, Name: secret.Name, UID: string(secret.UID)}
	for _, registry := range slices.Sorted(maps.Keys(config)) {
		entry := config[registry]
		login := Login{Username: entry.Username, Password: entry.Password}
		if entry.Auth != "" {
			if login, err = decodeAuth(entry.Auth); err != nil {
				return fmt.Errorf("secret %s/%s: registry %s: %w", secret.Namespace, secret.Name, registry, err)
			}
		}
		k.Add(registry, login, source)
	}
	return nil
}

func readSecret(secret *corev1.Secret) (dockerConfig, error) {
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		if data := secret.Data[corev1.DockerConfigJsonKey]; len(data) > 0 {
			var whole struct{ Auths dockerConfig }
			err := json.Unmarshal(data, &whole)
			return whole.Auths, err
		}
	case corev1.SecretTypeDockercfg:
		if data := secret.Data[corev1.DockerConfigKey]; len(data) > 0 {
			var config dockerConfig
			err := json.Unmarshal(data, &config)
			return config, err
		}
	}
	return nil, nil
}

// decodeAuth takes "user:password" in base64 apart, with padding or without.
func decodeAuth(field string) (Login, error) {
	decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(field, "="))
	if err != nil {
		return Login{}, fmt.Errorf("decode auth: %w", err)
	}
	username, password, found := strings.Cut(string(decoded), ":")
	if !found {
		return Login{}, errors.New("unable to parse auth field, must be formatted as base64(username:password)")
	}
	return Login{Username: username, Password: password}, nil
}
