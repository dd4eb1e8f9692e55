package core

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// Secret is the row of secrets.
func Secret() *kinds.Kind {
	return &kinds.Kind{
		GVK:        corev1.SchemeGroupVersion.WithKind("Secret"),
		Resource:   "secrets",
		Singular:   "secret",
		Namespaced: true,
		Path:       "secrets",
		Type: &object.Type{
			APIVersion: "v1", Kind: "Secret", Namespaced: true,
			New:    func() runtime.Object { return &corev1.Secret{} },
			Fields: []object.Field{{Label: "type", Proto: []int32{3}}},
		},
		UnknownField: kinds.UnknownField,
		New:          func() kinds.Object { return &corev1.Secret{} },
		NewList:      func() runtime.Object { return &corev1.SecretList{} },

		Default:  func(obj kinds.Object) { defaultSecret(obj.(*corev1.Secret)) },
		Validate: func(obj kinds.Object) field.ErrorList { return validateSecret(obj.(*corev1.Secret)) },
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateSecretUpdate(obj.(*corev1.Secret), old.(*corev1.Secret))
		},
		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Type", corev1.Secret{}.SwaggerDoc()["type"]),
			column.Text("Data", corev1.Secret{}.SwaggerDoc()["data"]),
			column.Age(),
		},
		Row: func(obj kinds.Object, now time.Time) []any {
			s := obj.(*corev1.Secret)
			return []any{s.Name, string(s.Type), int64(len(s.Data)), column.Since(s.CreationTimestamp, now)}
		},
	}
}

// defaultSecret sets the type and moves stringData, which is for writing only, over data.
func defaultSecret(s *corev1.Secret) {
	if s.Type == "" {
		s.Type = corev1.SecretTypeOpaque
	}
	if len(s.StringData) > 0 && s.Data == nil {
		s.Data = make(map[string][]byte, len(s.StringData))
	}
	for key, value := range s.StringData {
		s.Data[key] = []byte(value)
	}
	s.StringData = nil
}

func validateSecret(s *corev1.Secret) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("data")
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		errs = append(errs, validateDataKey(key, path)...)
		size += len(s.Data[key])
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(path, "" /* the contents stay secret */, corev1.MaxSecretSize))
	}
	return append(errs, validateSecretType(s, path)...)
}

// validateSecretType checks what each of the built-in types must contain; other types are free.
func validateSecretType(s *corev1.Secret, path *field.Path) field.ErrorList {
	has := func(key string) bool { _, found := s.Data[key]; return found }
	missing := func(key string) *field.Error { return field.Required(path.Key(key), "") }

	var errs field.ErrorList
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	case corev1.SecretTypeDockercfg:
		errs = append(errs, validateJSONObject(s, path, corev1.DockerConfigKey)...)
	case corev1.SecretTypeDockerConfigJson:
		errs = append(errs, validateJSONObject(s, path, corev1.DockerConfigJsonKey)...)
	case corev1.SecretTypeBasicAuth:
		if !has(corev1.BasicAuthUsernameKey) && !has(corev1.BasicAuthPasswordKey) {
			errs = append(errs, missing(corev1.BasicAuthUsernameKey), missing(corev1.BasicAuthPasswordKey))
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, missing(corev1.SSHAuthPrivateKey))
		}
	case corev1.SecretTypeTLS:
		for _, key := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
			if !has(key) {
				errs = append(errs, missing(key))
			}
		}
	}
	return errs
}

func validateJSONObject(s *corev1.Secret, path *field.Path, key string) field.ErrorList {
	content, found := s.Data[key]
	if !found {
		return field.ErrorList{field.Required(path.Key(key), "")}
	}
	if err := json.Unmarshal(content, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(path.Key(key), "<secret contents redacted>", err.Error())}
	}
	return nil
}

func validateSecretUpdate(s, old *corev1.Secret) field.ErrorList {
	errs := validate.Immutable(s.Type, old.Type, field.NewPath("type"))
	errs = append(errs, validateStaysImmutable(s.Immutable, old.Immutable)...)
	if isTrue(old.Immutable) && !equality.Semantic.DeepEqual(s.Data, old.Data) {
		errs = append(errs, field.Forbidden(field.NewPath("data"), immutableIsSet))
	}
	return append(errs, validateSecret(s)...)
}
