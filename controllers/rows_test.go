package controllers

import (
	"slices"
	"testing"

	"vigil/apiserver/authz/bootstrappolicy"
)

// An account that the bootstrap policy does not know may do nothing: its controller would be told 403 for ever.
func TestRows_Accounts(t *testing.T) {
	may := map[string]bool{}
	for _, b := range bootstrappolicy.ClusterRoleBindings() {
		for _, s := range b.Subjects {
			may[s.Name] = may[s.Name] || s.Kind == "ServiceAccount" && s.Namespace == "kube-system"
		}
	}
	for _, b := range bootstrappolicy.RoleBindings() {
		for _, s := range b.Subjects {
			may[s.Name] = may[s.Name] || s.Kind == "ServiceAccount" && s.Namespace == "kube-system"
		}
	}
	for _, r := range rows {
		for _, account := range r.accounts {
			if !may[account] {
				t.Errorf("%s acts as service account %s, for which there is no role in apiserver/authz/bootstrappolicy", r.name(), account)
			}
		}
	}
}

// A name stands for one controller.
func TestRows_Names(t *testing.T) {
	var seen []string
	for _, r := range rows {
		for _, name := range r.names {
			if slices.Contains(seen, name) || slices.Contains(absent, name) {
				t.Errorf("%s is there twice", name)
			}
			seen = append(seen, name)
		}
	}
}
