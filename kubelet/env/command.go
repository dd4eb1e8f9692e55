package env

import (
	"slices"
	"strings"

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
