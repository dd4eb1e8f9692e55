package bootstrappolicy

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// TestPolicy_HangsTogether checks what a slip of the pen would break: every binding's role exists, every role of a component has
// somebody who holds it or is known to be given out, names are unique, and no rule is empty.
func TestPolicy_HangsTogether(t *testing.T) {
	roles := map[string]bool{}
	for _, role := range ClusterRoles() {
		if roles[role.Name] {
			t.Errorf("cluster role %s: twice", role.Name)
		}
		roles[role.Name] = true
		if len(role.Rules) == 0 && role.AggregationRule == nil {
			t.Errorf("cluster role %s: no rules", role.Name)
		}
		checkRules(t, role.Name, role.Rules)
	}
	bound := map[string]bool{}
	for _, binding := range ClusterRoleBindings() {
		if !roles[binding.RoleRef.Name] {
			t.Errorf("cluster role binding %s: there is no cluster role %s", binding.Name, binding.RoleRef.Name)
		}
		bound[binding.RoleRef.Name] = true
	}
	for name := range roles {
		if strings.HasPrefix(name, "system:controller:") && !bound[name] {
			t.Errorf("cluster role %s: nobody holds it", name)
		}
	}
	namespaced := map[string]bool{}
	for _, role := range Roles() {
		namespaced[role.Namespace+"/"+role.Name] = true
		checkRules(t, role.Namespace+"/"+role.Name, role.Rules)
	}
	for _, binding := range RoleBindings() {
		if !namespaced[binding.Namespace+"/"+binding.RoleRef.Name] {
			t.Errorf("role binding %s/%s: there is no role %s", binding.Namespace, binding.Name, binding.RoleRef.Name)
		}
	}
}

func checkRules(t *testing.T, name string, rules []rbacv1.PolicyRule) {
	t.Helper()
	for _, rule := range rules {
		if len(rule.Verbs) == 0 || (len(rule.NonResourceURLs) == 0) == (len(rule.Resources) == 0) || (len(rule.Resources) == 0) != (len(rule.APIGroups) == 0) {
			t.Errorf("%s: half a rule: %v", name, rule)
		}
	}
}
