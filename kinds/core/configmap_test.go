package core

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const keyRule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"

func TestConfigMap_Validate(t *testing.T) {
	for name, tc := range map[string]struct {
		cm   corev1.ConfigMap
		want []string
	}{
		"empty":     {},
		"all sorts": {cm: corev1.ConfigMap{Data: map[string]string{"a": "", "A_b-c.d": "x"}, BinaryData: map[string][]byte{".x": nil}}},
		"keys": {
			cm: corev1.ConfigMap{Data: map[string]string{"a/b": ""}, BinaryData: map[string][]byte{"..": nil, "a b": nil}},
			want: []string{
				`data[a/b]: Invalid value: "a/b": ` + keyRule,
				`binaryData[..]: Invalid value: "..": must not be '..'`,
				`binaryData[a b]: Invalid value: "a b": ` + keyRule,
			},
		},
		"key twice": {
			cm:   corev1.ConfigMap{Data: map[string]string{"a": ""}, BinaryData: map[string][]byte{"a": nil}},
			want: []string{`data[a]: Invalid value: "a": duplicate of key present in binaryData`},
		},
		"just fits": {cm: corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat("x", 1<<19)}, BinaryData: map[string][]byte{"b": make([]byte, 1<<19)}}},
		"too large": {
			cm:   corev1.ConfigMap{Data: map[string]string{"a": strings.Repeat("x", 1<<19)}, BinaryData: map[string][]byte{"b": make([]byte, 1<<19+1)}},
			want: []string{"[]: Too long: may not be more than 1048576 bytes"},
		},
	} {
		t.Run(name, func(t *testing.T) { wantErrors(t, ConfigMap().Validate(&tc.cm), tc.want...) })
	}
}

func TestConfigMap_Immutable(t *testing.T) {
	old := &corev1.ConfigMap{Immutable: ptr(true), Data: map[string]string{"a": "1"}, BinaryData: map[string][]byte{"b": {1}}}
	for name, tc := range map[string]struct {
		change func(*corev1.ConfigMap)
		want   []string
	}{
		"labels":     {change: func(cm *corev1.ConfigMap) { cm.Labels = map[string]string{"x": "y"} }},
		"data":       {change: func(cm *corev1.ConfigMap) { cm.Data["a"] = "2" }, want: []string{"data: Forbidden: field is immutable when `immutable` is set"}},
		"binaryData": {change: func(cm *corev1.ConfigMap) { cm.BinaryData = nil }, want: []string{"binaryData: Forbidden: field is immutable when `immutable` is set"}},
		"unset":      {change: func(cm *corev1.ConfigMap) { cm.Immutable = nil }, want: []string{"immutable: Forbidden: field is immutable when `immutable` is set"}},
		"false":      {change: func(cm *corev1.ConfigMap) { cm.Immutable = ptr(false) }, want: []string{"immutable: Forbidden: field is immutable when `immutable` is set"}},
	} {
		t.Run(name, func(t *testing.T) {
			cm := old.DeepCopy()
			tc.change(cm)
			wantErrors(t, ConfigMap().ValidateUpdate(cm, old), tc.want...)
		})
	}
	now := &corev1.ConfigMap{Immutable: ptr(true), Data: map[string]string{"a": "new"}}
	wantErrors(t, ConfigMap().ValidateUpdate(now, &corev1.ConfigMap{Immutable: ptr(false), Data: map[string]string{"a": "old"}}))
}

func TestConfigMap_Row(t *testing.T) {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"a": "", "b": ""}, BinaryData: map[string][]byte{"c": nil}}
	wantSame(t, "row", []any{"a", int64(3), "<unknown>"}, ConfigMap().Row(cm, time.Now()))
}
