// Package abac decides by a policy file, one JSON object a line (attribute-based access control). The file is read once, at start.
//
//	{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"joe","namespace":"*","resource":"pods","apiGroup":"*","readonly":true}}
//
// Lines without apiVersion and kind have the old form, the fields of spec directly. Follows upstream's pkg/auth/authorizer/abac and
// pkg/apis/abac.
package abac

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
)

// apiVersion is the only one besides that of lines without any.
const apiVersion = "abac.authorization.kubernetes.io/v1beta1"

const all = "*"

// Policies are the lines of a file. They are never changed.
type Policies []spec

// spec says what a user or group may do. "*" is everything, an empty field nothing.
type spec struct {
	User            string `json:"user,omitempty"`
	Group           string `json:"group,omitempty"`
	ReadOnly        bool   `json:"readonly,omitempty"`
	APIGroup        string `json:"apiGroup,omitempty"`
	Resource        string `json:"resource,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	NonResourcePath string `json:"nonResourcePath,omitempty"`
}

// Load reads a policy file. The error names the line.
func Load(path string) (Policies, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read policy file: %w", err)
	}
	policies := Policies{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for number := 1; lines.Scan(); number++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		policy, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("error reading policy file %s, line %d: %s: %w", path, number, line, err)
		}
		policies = append(policies, policy)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read policy file %s: %w", path, err)
	}
	return policies, nil
}

func parse(line []byte) (spec, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       spec   `json:"spec"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return spec{}, err
	}
	switch {
	case head.APIVersion == "" && head.Kind == "":
		var old spec
		if err := json.Unmarshal(line, &old); err != nil {
			return spec{}, err
		}
		return old.upgrade(), nil
	case head.APIVersion != apiVersion || head.Kind != "Policy":
		return spec{}, fmt.Errorf("no kind %q is registered for version %q", head.Kind, head.APIVersion)
	}
	return head.Spec.authenticated(), nil
}

// authenticated gives what is for everybody to those whom the server knows.
func (p spec) authenticated() spec {
	if p.User == all || p.Group == all {
		p.User, p.Group = "", authn.GroupAuthenticated
	}
	return p
}

// upgrade fills in what an empty field meant before there were versions: everything.
func (p spec) upgrade() spec {
	if p.User == "" && p.Group == "" {
		p.Group = authn.GroupAuthenticated
	}
	if p.Namespace == "" && p.Resource == "" {
		p.NonResourcePath = all
	}
	if p.Namespace == "" {
		p.Namespace = all
	}
	if p.Resource == "" {
		p.Resource = all
	}
	p.APIGroup = all
	return p.authenticated()
}

// Authorize implements [authz.Authorizer]; allowed false is no opinion.
func (ps Policies) Authorize(_ context.Context, attr *authz.Attributes) (allowed bool, reason string, err error) {
	for i := range ps {
		if ps[i].allows(attr) {
			return true, "", nil
		}
	}
	return false, "No policy matched.", nil
}

// RulesFor implements [authz.RuleResolver].
func (ps Policies) RulesFor(_ context.Context, user *authn.User, namespace string) (authz.Rules, error) {
	var rules authz.Rules
	for _, p := range ps {
		if !p.concerns(user) {
			continue
		}
		verbs := []string{all}
		if p.ReadOnly {
			verbs = []string{"get", "list", "watch"}
		}
		if p.Resource != "" && (p.Namespace == namespace || p.Namespace == all) {
			rules.Resource = append(rules.Resource, authorizationv1.ResourceRule{Verbs: verbs, APIGroups: []string{p.APIGroup}, Resources: []string{p.Resource}})
		}
		if p.NonResourcePath != "" {
			rules.NonResource = append(rules.NonResource, authorizationv1.NonResourceRule{Verbs: verbs, NonResourceURLs: []string{p.NonResourcePath}})
		}
	}
	return rules, nil
}

func (p *spec) allows(attr *authz.Attributes) bool {
	if !p.concerns(attr.User) {
		return false
	}
	if p.ReadOnly && !slices.Contains([]string{"get", "list", "watch"}, attr.Verb) {
		return false
	}
	if attr.Resource == "" {
		prefix, tree := strings.CutSuffix(p.NonResourcePath, all)
		return p.NonResourcePath == attr.Path && attr.Path != "" || tree && strings.HasPrefix(attr.Path, prefix)
	}
	has := func(pattern, value string) bool { return pattern == all || pattern == value }
	return has(p.Namespace, attr.Namespace) && has(p.Resource, attr.Resource) && has(p.APIGroup, attr.Group)
}

// concerns says whether the policy is for a user: of a policy with user and group it has to be both.
func (p *spec) concerns(user *authn.User) bool {
	if p.User == "" && p.Group == "" {
		return false
	}
	return (p.User == "" || p.User == user.Name) && (p.Group == "" || user.InGroup(p.Group))
}
