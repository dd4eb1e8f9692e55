package env

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/internal/expand"
)

// expandAll resolves the references to variables in a command.
func expandAll(words []string, vars []Var) []string {
	if !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, "$") }) {
		return words
	}
	out := make([]string, len(words))
	for i, word := range words {
		out[i] = expand.String(word, func(name string) (string, bool) { return find(vars, name) })
	}
	return out
}

func find(vars []Var, name string) (string, bool) {
	for i := range vars {
		if vars[i].Name == name {
			return vars[i].Value, true
		}
	}
	return "", false
}

// Expand resolves the references to a container's variables in an expression (subPathExpr), and fails when there is no such variable.
func (m *Maker) Expand(ctx context.Context, pod *corev1.Pod, container *corev1.Container, expression string) (string, error) {
	vars, err := m.Variables(ctx, pod, container)
	if err != nil {
		return "", err
	}
	var missing []string
	expanded := expand.String(expression, func(name string) (string, bool) {
		value, found := find(vars, name)
		if !found {
			missing = append(missing, fmt.Sprintf("%q", name))
		}
		return value, found
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("missing value for %s", strings.Join(missing, ", "))
	}
	return expanded, nil
}
