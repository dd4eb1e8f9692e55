package core

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSecret_Default(t *testing.T) {
	row := Secret()
	empty := &corev1.Secret{}
	row.Default(empty)
	wantSame(t, "empty", &corev1.Secret{Type: corev1.SecretTypeOpaque}, empty)

	s := &corev1.Secret{Type: "x", Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}, StringData: map[string]string{"b": "3", "c": "4"}}
	row.Default(s)
	wantSame(t, "stringData over data", &corev1.Secret{Type: "x", Data: map[string][]byte{"a": []byte("1"), "b": []byte("3"), "c": []byte("4")}}, s)

	s = &corev1.Secret{StringData: map[string]string{"c": "4"}}
	row.Default(s)
	wantSame(t, "stringData alone", &corev1.Secret{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"c": []byte("4")}}, s)
}

func TestSecret_Validate(t *testing.T) {
	data := func(keysAndValues ...string) map[string][]byte {
		m := map[string][]byte{}
		for i := 0; i < len(keysAndValues); i += 2 {
			m[keysAndValues[i]] = []byte(keysAndValues[i+1])
		}
		return m
	}
	for name, tc := range map[string]struct {
		secret corev1.Secret
		want   []string
	}{
		"opaque":           {secret: corev1.Secret{Type: corev1.SecretTypeOpaque, Data: data("a", "b")}},
		"own type":         {secret: corev1.Secret{Type: "example.com/x"}},
		"key":              {secret: corev1.Secret{Data: data("a/b", "")}, want: []string{`data[a/b]: Invalid value: "a/b": ` + keyRule}},
		"too large":        {secret: corev1.Secret{Data: map[string][]byte{"a": make([]byte, 1<<20+1)}}, want: []string{"data: Too long: may not be more than 1048576 bytes"}},
		"token":            {secret: corev1.Secret{Type: corev1.SecretTypeServiceAccountToken}, want: []string{"metadata.annotations[kubernetes.io/service-account.name]: Required value"}},
		"token with name":  {secret: corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/service-account.name": "x"}}}},
		"dockercfg":        {secret: corev1.Secret{Type: corev1.SecretTypeDockercfg}, want: []string{"data[.dockercfg]: Required value"}},
		"dockercfg text":   {secret: corev1.Secret{Type: corev1.SecretTypeDockercfg, Data: data(".dockercfg", "pssst")}, want: []string{`data[.dockercfg]: Invalid value: "<secret contents redacted>": invalid character 'p' looking for beginning of value`}},
		"dockerconfigjson": {secret: corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: data(".dockerconfigjson", "[]")}, want: []string{`data[.dockerconfigjson]: Invalid value: "<secret contents redacted>": json: cannot unmarshal array into Go value of type map[string]interface {}`}},
		"dockerconfig ok":  {secret: corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: data(".dockerconfigjson", "{}")}},
		"basic auth":       {secret: corev1.Secret{Type: corev1.SecretTypeBasicAuth}, want: []string{"data[username]: Required value", "data[password]: Required value"}},
		"basic auth half":  {secret: corev1.Secret{Type: corev1.SecretTypeBasicAuth, Data: data("password", "x")}},
		"ssh":              {secret: corev1.Secret{Type: corev1.SecretTypeSSHAuth, Data: data("ssh-privatekey", "")}, want: []string{"data[ssh-privatekey]: Required value"}},
		"tls":              {secret: corev1.Secret{Type: corev1.SecretTypeTLS, Data: data("tls.crt", "")}, want: []string{"data[tls.key]: Required value"}},
		"tls empty":        {secret: corev1.Secret{Type: corev1.SecretTypeTLS, Data: data("tls.crt", "", "tls.key", "")}},
	} {
		t.Run(name, func(t *testing.T) { wantErrors(t, Secret().Validate(&tc.secret), tc.want...) })
	}
}

func TestSecret_Update(t *testing.T) {
	old := &corev1.Secret{Type: corev1.SecretTypeOpaque, Immutable: ptr(true), Data: map[string][]byte{"a": []byte("1")}}
	row := Secret()
	wantErrors(t, row.ValidateUpdate(old, old))
	s := old.DeepCopy()
	s.Type, s.Immutable, s.Data = "x", nil, nil
	wantErrors(t, row.ValidateUpdate(s, old),
		`type: Invalid value: "x": field is immutable`,
		"immutable: Forbidden: field is immutable when `immutable` is set",
		"data: Forbidden: field is immutable when `immutable` is set",
	)
}

func TestSecret_Row(t *testing.T) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{"a": nil}}
	wantSame(t, "row", []any{"a", "kubernetes.io/tls", int64(1), "<unknown>"}, Secret().Row(s, time.Now()))
}

func TestServiceAccount(t *testing.T) {
	row := ServiceAccount()
	sa := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Secrets:    []corev1.ObjectReference{{Name: "s", Namespace: "elsewhere", UID: "u"}, {Name: "t"}},
	}
	row.PrepareCreate(sa)
	wantSame(t, "secrets", []corev1.ObjectReference{{Name: "s"}, {Name: "t"}}, sa.Secrets)
	wantSame(t, "row", []any{"a", int64(2), "<unknown>"}, row.Row(sa, time.Now()))

	marked := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/enforce-mountable-secrets": "true"}}}
	want := []string{"metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"}
	wantSame(t, "warnings on create", want, row.Warnings(marked, nil))
	wantSame(t, "warnings when it comes", want, row.Warnings(marked, sa))
	wantSame(t, "warnings when it was there", []string(nil), row.Warnings(marked, marked))
}
