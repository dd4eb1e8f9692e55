package escalation

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-helpers/auth/rbac/validation"

	"vigil/apiserver/authn"
)

// confirm says what a user lacks of rules, with upstream's text.
func (g guard) confirm(user *authn.User, namespace string, rules []rbacv1.PolicyRule) error {
	held, unresolved := g.Held(user, namespace)
	covered, missing := validation.Covers(held, rules)
	if covered {
		return nil
	}
	var lines []string
	for _, rule := range compact(missing) {
		lines = append(lines, describe(rule))
	}
	slices.Sort(lines)
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		user.Name, user.Groups, strings.Join(slices.Compact(lines), "\n"))
	if unresolved != nil {
		text += fmt.Sprintf("; resolution errors: %v", []error{unresolved})
	}
	return fmt.Errorf("%s", text)
}

// simple is what a rule about one resource is about.
type simple struct {
	group, resource, name string
	named                 bool
}

// compact joins rules about the same single resource, which differ in their verbs.
func compact(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	at := map[simple]int{}
	for _, rule := range rules {
		if len(rule.ResourceNames) > 1 || len(rule.NonResourceURLs) > 0 || len(rule.APIGroups) != 1 || len(rule.Resources) != 1 {
			out = append(out, rule)
			continue
		}
		key := simple{group: rule.APIGroups[0], resource: rule.Resources[0]}
		if key.named = len(rule.ResourceNames) > 0; key.named {
			key.name = rule.ResourceNames[0]
		}
		if i, ok := at[key]; ok {
			out[i].Verbs = append(out[i].Verbs, rule.Verbs...)
			continue
		}
		at[key] = len(out)
		out = append(out, *rule.DeepCopy())
	}
	return out
}

// describe writes a rule on a line: {APIGroups:[""], Resources:["pods"], Verbs:["get"]}.
func describe(rule rbacv1.PolicyRule) string {
	var parts []string
	for _, part := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", rule.APIGroups}, {"Resources", rule.Resources}, {"NonResourceURLs", rule.NonResourceURLs},
		{"ResourceNames", rule.ResourceNames}, {"Verbs", rule.Verbs},
	} {
		if len(part.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", part.name, part.values))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
